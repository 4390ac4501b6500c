// X.509 certificates in PEM text, by OpenSSL: checking the files that a process
// was given, and making an authority for tests.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CERTIFICATES_H_
#define TRIBUTARY_COMMON_TRANSPORT_CERTIFICATES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tributary {

struct CertificateAndKey {
  std::string certificate;
  // Not encrypted: keep it from others.
  std::string key;
};

struct CertificateRequest {
  std::string common_name;
  // The only subject alternative name; empty: none.
  std::string dns_name;
  absl::Time not_before;
  absl::Time not_after;
};

// A new authority that signs itself, with a P-256 key.
absl::StatusOr<CertificateAndKey> MakeAuthority(
    const CertificateRequest& request);

// A new certificate of `authority`, for TLS servers and clients alike.
absl::StatusOr<CertificateAndKey> IssueCertificate(
    const CertificateRequest& request, const CertificateAndKey& authority);

// That the first certificate of the chain belongs to the key, is trusted by one
// of `authorities`, valid now and has the DNS name. FailedPrecondition says
// which of these it is not; InvalidArgument: one of the texts is no PEM.
absl::Status CheckCertificate(const std::string& authorities,
                              const CertificateAndKey& chain,
                              const std::string& dns_name);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CERTIFICATES_H_
