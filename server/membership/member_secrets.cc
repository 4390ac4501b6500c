#include "server/membership/member_secrets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace tributary {
namespace {

// As long as the code that it keys; a longer key is not safer.
constexpr int kKeyBytes = 32;

// Returns what the secret of an assignment proves. `Message` is Deal or
// Assigned.
template <typename Message>
std::string TextOf(int64_t incarnation, const Message& assignment) {
  std::string text =
      absl::StrCat("assignment ", incarnation, " ", assignment.generation(),
                   " ", assignment.leaf_begin(), " ", assignment.leaf_end());
  if (assignment.chunk_begin() != 0 || assignment.chunk_end() != 0) {
    absl::StrAppend(&text, " chunks ", assignment.chunk_begin(), " ",
                    assignment.chunk_end());
  }
  return text;
}

}  // namespace

std::string MemberSecrets::NewKey() { return RandomBytes(kKeyBytes); }

std::string MemberSecrets::OfMember(int64_t incarnation) const {
  return HmacSha256(key_, absl::StrCat("member ", incarnation));
}

std::string MemberSecrets::OfAssignment(int64_t incarnation,
                                        const Deal& deal) const {
  return HmacSha256(key_, TextOf(incarnation, deal));
}

std::string MemberSecrets::OfPair(int64_t incarnation, int64_t other) const {
  return HmacSha256(key_, absl::StrCat("pair ", std::min(incarnation, other),
                                       " ", std::max(incarnation, other)));
}

bool MemberSecrets::Proves(const Hello& hello) const {
  return EqualSecrets(hello.secret(), OfMember(hello.incarnation()));
}

bool MemberSecrets::Proves(int64_t incarnation,
                           const Assigned& assigned) const {
  return EqualSecrets(assigned.secret(),
                      HmacSha256(key_, TextOf(incarnation, assigned)));
}

}  // namespace tributary
