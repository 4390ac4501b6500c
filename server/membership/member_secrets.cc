#include "server/membership/member_secrets.h"

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace tributary {
namespace {

// As long as the code that it keys; a longer key is not safer.
constexpr int kKeyBytes = 32;

}  // namespace

std::string MemberSecrets::NewKey() { return RandomBytes(kKeyBytes); }

std::string MemberSecrets::OfMember(int64_t incarnation) const {
  return HmacSha256(key_, absl::StrCat("member ", incarnation));
}

std::string MemberSecrets::OfLeaves(int64_t incarnation, int64_t generation,
                                    int begin, int end) const {
  return HmacSha256(key_, absl::StrCat("assignment ", incarnation, " ",
                                       generation, " ", begin, " ", end));
}

std::string MemberSecrets::OfAssignment(int64_t incarnation,
                                        const Deal& deal) const {
  return OfLeaves(incarnation, deal.generation(), deal.leaf_begin(),
                  deal.leaf_end());
}

bool MemberSecrets::Proves(const Hello& hello) const {
  return EqualSecrets(hello.secret(), OfMember(hello.incarnation()));
}

bool MemberSecrets::Proves(int64_t incarnation,
                           const Assigned& assigned) const {
  return EqualSecrets(assigned.secret(),
                      OfLeaves(incarnation, assigned.generation(),
                               assigned.leaf_begin(), assigned.leaf_end()));
}

}  // namespace tributary
