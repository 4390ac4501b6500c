// Certificate authorities and certificates for tests, in folders of the
// --tls-dir layout.
#ifndef TRIBUTARY_TESTS_SUPPORT_CERTIFICATES_H_
#define TRIBUTARY_TESTS_SUPPORT_CERTIFICATES_H_

#include <string>

#include "absl/time/time.h"
#include "common/transport/certificates.h"
#include "common/transport/security.h"

namespace tributary {

// Returns a new certificate authority.
CertificateAndKey TestAuthority();

// Creates or replaces a folder that holds `authorities` (PEM text) as ca.pem,
// and a certificate issued by `issuer` for each role. The certificates are
// valid for `validity`, starting one hour ago.
void WriteTlsDirectory(const std::string& directory,
                       const CertificateAndKey& issuer,
                       const std::string& authorities,
                       absl::Duration validity = absl::Hours(2));

// Like the function above, with a new authority.
void WriteTlsDirectory(const std::string& directory);

// Returns the same as LoadSecurity for the folder, but without checking the
// files.
Security TestSecurity(const std::string& directory, Role role,
                      const std::string& token = "");

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_CERTIFICATES_H_
