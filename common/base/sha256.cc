#include "common/base/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdlib>

#include "absl/strings/escaping.h"

namespace tributary {
namespace {

// These functions fail only if OpenSSL is broken, out of memory or without a
// source of randomness. No later result could be trusted then, so the process
// ends.
void Require(bool ok) {
  if (!ok) std::abort();
}

void Start(EVP_MD_CTX* context) {
  Require(context != nullptr &&
          EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { Start(context_); }

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::Update(absl::string_view bytes) {
  Require(EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::FinishHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  Require(EVP_DigestFinal_ex(context_, digest, &size) == 1);
  Start(context_);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest), size));
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return digest.FinishHex();
}

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  unsigned char code[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  Require(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(text.data()), text.size(),
               code, &size) != nullptr);
  return std::string(reinterpret_cast<const char*>(code), size);
}

bool EqualSecrets(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() &&
         CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(int count) {
  std::string bytes(count, '\0');
  Require(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), count) ==
          1);
  return bytes;
}

}  // namespace tributary
