#include "common/base/digest.h"

#include <openssl/evp.h>

#include <cstdlib>

#include "absl/strings/escaping.h"

namespace tributary {
namespace {

// SHA-256 of bytes in memory fails only if OpenSSL is broken or out of memory.
// No later result could be trusted then, so the process ends.
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

}  // namespace tributary
