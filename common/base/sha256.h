// SHA-256 (FIPS 180-4), HMAC (RFC 2104) and random bytes, from OpenSSL.
#ifndef TRIBUTARY_COMMON_BASE_SHA256_H_
#define TRIBUTARY_COMMON_BASE_SHA256_H_

#include <string>

#include "absl/strings/string_view.h"

// OpenSSL's digest state, declared here so that this header need not include
// OpenSSL's headers.
struct evp_md_ctx_st;

namespace tributary {

// An incremental SHA-256. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(absl::string_view bytes);

  // Returns the digest of all bytes so far as 64 lower-case hex digits, and
  // resets the object to its initial state.
  std::string FinishHex();

 private:
  evp_md_ctx_st* const context_;
};

// Returns the digest of `bytes` as 64 lower-case hex digits.
std::string Sha256Hex(absl::string_view bytes);

// Returns the 32 bytes of HMAC-SHA-256 of `text`. Without the key, nobody can
// compute them for a further text.
std::string HmacSha256(absl::string_view key, absl::string_view text);

// Compares two secrets, in a time that depends only on their sizes.
bool EqualSecrets(absl::string_view a, absl::string_view b);

// Returns bytes that nobody can predict.
std::string RandomBytes(int count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_SHA256_H_
