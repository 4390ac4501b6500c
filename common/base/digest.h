// SHA-256 (FIPS 180-4) of bytes, by OpenSSL.
#ifndef TRIBUTARY_COMMON_BASE_DIGEST_H_
#define TRIBUTARY_COMMON_BASE_DIGEST_H_

#include <string>

#include "absl/strings/string_view.h"

// OpenSSL's digest state; its headers stay out of ours.
struct evp_md_ctx_st;

namespace tributary {

// The digest of bytes that come in pieces. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);

  // The digest of everything so far, 64 lower-case hex digits. The object then
  // starts anew, as if just constructed.
  std::string FinishHex();

 private:
  evp_md_ctx_st* const context_;
};

// The digest of `bytes`, 64 lower-case hex digits.
std::string Sha256Hex(absl::string_view bytes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_DIGEST_H_
