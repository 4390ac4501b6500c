// X.509 certificates in PEM format. Checks the certificates that a process was
// started with, and creates certificate authorities for tests and for jobs that
// create their own certificates.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CERTIFICATES_H_
#define TRIBUTARY_COMMON_TRANSPORT_CERTIFICATES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tributary {

struct CertificateAndKey {
  std::string certificate;
  // The private key, not encrypted. Do not let other users read it.
  std::string key;
};

struct CertificateRequest {
  std::string common_name;
  // The DNS name to put in the certificate, as its only subject alternative
  // name. If empty, the certificate has no such name.
  std::string dns_name;
  absl::Time not_before;
  absl::Time not_after;
};

// Creates a self-signed certificate authority with a P-256 key. Returns an
// error only if OpenSSL fails.
absl::StatusOr<CertificateAndKey> MakeAuthority(
    const CertificateRequest& request);

// Creates a certificate, signed by `authority`, for TLS servers and clients.
// Returns an error if `authority` is not PEM or OpenSSL fails.
absl::StatusOr<CertificateAndKey> IssueCertificate(
    const CertificateRequest& request, const CertificateAndKey& authority);

// Checks that the first certificate of the chain belongs to the key, chains to
// one of `authorities`, is valid now and has the DNS name `dns_name`. Returns
// FailedPrecondition, naming the condition, if one does not hold, and
// InvalidArgument if one of the texts is not PEM.
absl::Status CheckCertificate(const std::string& authorities,
                              const CertificateAndKey& chain,
                              const std::string& dns_name);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CERTIFICATES_H_
