#include "common/transport/certificates.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <ctime>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using BioPtr = std::unique_ptr<BIO, Free<&BIO_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Free<&EVP_PKEY_free>>;
using CertificatePtr = std::unique_ptr<X509, Free<&X509_free>>;
using ExtensionPtr =
    std::unique_ptr<X509_EXTENSION, Free<&X509_EXTENSION_free>>;
using StorePtr = std::unique_ptr<X509_STORE, Free<&X509_STORE_free>>;
using StoreContextPtr =
    std::unique_ptr<X509_STORE_CTX, Free<&X509_STORE_CTX_free>>;
using NumberPtr = std::unique_ptr<BIGNUM, Free<&BN_free>>;

void FreeStack(STACK_OF(X509) * stack) { sk_X509_free(stack); }
using StackPtr = std::unique_ptr<STACK_OF(X509), Free<&FreeStack>>;

// The encoding of X.509 version 3.
constexpr int kVersion3 = 2;

BioPtr ReadBio(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, size);
}

absl::Status OpenSslError(const char* what) {
  const unsigned long code = ERR_get_error();
  const char* reason = ERR_reason_error_string(code);
  ERR_clear_error();
  return absl::InternalError(
      absl::StrCat(what, ": ", reason == nullptr ? "OpenSSL failed" : reason));
}

absl::StatusOr<std::vector<CertificatePtr>> ParseCertificates(
    const std::string& pem) {
  const BioPtr bio = ReadBio(pem);
  std::vector<CertificatePtr> certificates;
  while (true) {
    CertificatePtr next(
        PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (next == nullptr) break;
    certificates.push_back(std::move(next));
  }
  ERR_clear_error();  // OpenSSL reports the end of the text as an error.
  if (certificates.empty()) {
    return absl::InvalidArgumentError("holds no certificate in PEM");
  }
  return certificates;
}

absl::StatusOr<KeyPtr> ParseKey(const std::string& pem) {
  const BioPtr bio = ReadBio(pem);
  // Keeps OpenSSL from asking for the passphrase of an encrypted key.
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  KeyPtr key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return absl::InvalidArgumentError(
        "holds no private key in PEM without a passphrase");
  }
  return key;
}

absl::Status AddExtension(X509* certificate, X509* issuer, int kind,
                          const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  if (extension == nullptr ||
      X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslError("cannot add an extension");
  }
  return absl::OkStatus();
}

bool SetSerialNumber(X509* certificate) {
  constexpr int kBits = 127;
  const NumberPtr number(BN_new());
  return number != nullptr &&
         BN_rand(number.get(), kBits, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) ==
             1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) !=
             nullptr;
}

absl::StatusOr<CertificatePtr> MakeUnsigned(const CertificateRequest& request,
                                            EVP_PKEY* key) {
  CertificatePtr certificate(X509_new());
  const time_t begin = absl::ToTimeT(request.not_before);
  const time_t end = absl::ToTimeT(request.not_after);
  if (certificate == nullptr ||
      X509_set_version(certificate.get(), kVersion3) != 1 ||
      !SetSerialNumber(certificate.get()) ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), begin) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), end) == nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1 ||
      X509_NAME_add_entry_by_txt(
          X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
          reinterpret_cast<const unsigned char*>(request.common_name.c_str()),
          -1, -1, 0) != 1) {
    return OpenSslError("cannot create a certificate");
  }
  return certificate;
}

absl::StatusOr<CertificateAndKey> Sign(X509* certificate, EVP_PKEY* own_key,
                                       EVP_PKEY* signing_key) {
  const BioPtr certificate_text(BIO_new(BIO_s_mem()));
  const BioPtr key_text(BIO_new(BIO_s_mem()));
  if (X509_sign(certificate, signing_key, EVP_sha256()) == 0 ||
      PEM_write_bio_X509(certificate_text.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), own_key, nullptr, nullptr, 0,
                               nullptr, nullptr) != 1) {
    return OpenSslError("cannot sign a certificate");
  }
  return CertificateAndKey{TextOf(certificate_text.get()),
                           TextOf(key_text.get())};
}

absl::StatusOr<KeyPtr> MakeKey() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("cannot create a key");
  return key;
}

bool HasDnsName(X509* certificate, const std::string& name) {
  return X509_check_host(
             certificate, name.data(), name.size(),
             X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS,
             nullptr) == 1;
}

// Checks that the chain leads to one of the authorities and is valid now.
absl::Status Verify(const std::vector<CertificatePtr>& authorities,
                    const std::vector<CertificatePtr>& chain) {
  const StorePtr store(X509_STORE_new());
  const StackPtr untrusted(sk_X509_new_null());
  const StoreContextPtr context(X509_STORE_CTX_new());
  for (const CertificatePtr& authority : authorities) {
    X509_STORE_add_cert(store.get(), authority.get());
  }
  for (const CertificatePtr& certificate : chain) {
    sk_X509_push(untrusted.get(), certificate.get());
  }
  if (X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(),
                          untrusted.get()) != 1) {
    return OpenSslError("cannot check a certificate");
  }
  if (X509_verify_cert(context.get()) == 1) return absl::OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  ERR_clear_error();
  return absl::FailedPreconditionError(X509_verify_cert_error_string(error));
}

}  // namespace

absl::StatusOr<CertificateAndKey> MakeAuthority(
    const CertificateRequest& request) {
  TRIBUTARY_ASSIGN_OR_RETURN(const KeyPtr key, MakeKey());
  TRIBUTARY_ASSIGN_OR_RETURN(const CertificatePtr certificate,
                             MakeUnsigned(request, key.get()));
  X509* const raw = certificate.get();
  if (X509_set_issuer_name(raw, X509_get_subject_name(raw)) != 1) {
    return OpenSslError("cannot name the issuer");
  }
  for (const auto& [kind, value] :
       {std::pair<int, const char*>{NID_basic_constraints,
                                    "critical,CA:TRUE,pathlen:0"},
        {NID_key_usage, "critical,keyCertSign,cRLSign"},
        {NID_subject_key_identifier, "hash"}}) {
    TRIBUTARY_RETURN_IF_ERROR(AddExtension(raw, raw, kind, value));
  }
  return Sign(raw, key.get(), key.get());
}

absl::StatusOr<CertificateAndKey> IssueCertificate(
    const CertificateRequest& request, const CertificateAndKey& authority) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> issuers,
                             ParseCertificates(authority.certificate));
  TRIBUTARY_ASSIGN_OR_RETURN(const KeyPtr issuer_key, ParseKey(authority.key));
  TRIBUTARY_ASSIGN_OR_RETURN(const KeyPtr key, MakeKey());
  TRIBUTARY_ASSIGN_OR_RETURN(const CertificatePtr certificate,
                             MakeUnsigned(request, key.get()));
  X509* const raw = certificate.get();
  X509* const issuer = issuers[0].get();
  if (X509_set_issuer_name(raw, X509_get_subject_name(issuer)) != 1) {
    return OpenSslError("cannot name the issuer");
  }
  std::vector<std::pair<int, std::string>> extensions = {
      {NID_basic_constraints, "critical,CA:FALSE"},
      {NID_key_usage, "critical,digitalSignature"},
      {NID_ext_key_usage, "serverAuth,clientAuth"},
      {NID_subject_key_identifier, "hash"},
      {NID_authority_key_identifier, "keyid"}};
  if (!request.dns_name.empty()) {
    extensions.emplace_back(NID_subject_alt_name,
                            absl::StrCat("DNS:", request.dns_name));
  }
  for (const auto& [kind, value] : extensions) {
    TRIBUTARY_RETURN_IF_ERROR(AddExtension(raw, issuer, kind, value));
  }
  return Sign(raw, key.get(), issuer_key.get());
}

absl::Status CheckCertificate(const std::string& authorities,
                              const CertificateAndKey& chain,
                              const std::string& dns_name) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> trusted,
                             ParseCertificates(authorities));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CertificatePtr> certificates,
                             ParseCertificates(chain.certificate));
  TRIBUTARY_ASSIGN_OR_RETURN(const KeyPtr key, ParseKey(chain.key));
  if (X509_check_private_key(certificates[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return absl::FailedPreconditionError(
        "the private key is not the certificate's");
  }
  TRIBUTARY_RETURN_IF_ERROR(Verify(trusted, certificates));
  if (!HasDnsName(certificates[0].get(), dns_name)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the certificate's subject alternative names do not "
                     "include DNS:",
                     dns_name));
  }
  return absl::OkStatus();
}

}  // namespace tributary
