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

// Creates or replaces a folder with `authorities` as ca.pem and certificates by
// `issuer` for all roles. They are valid for `validity`, starting one hour ago.
void WriteTlsDirectory(const std::string& directory,
                       const CertificateAndKey& issuer,
                       const std::string& authorities,
                       absl::Duration validity = absl::Hours(2));

// As above, with a new authority.
void WriteTlsDirectory(const std::string& directory);

// Returns what LoadSecurity returns for the folder, without its checks.
Security TestSecurity(const std::string& directory, Role role,
                      const std::string& token = "");

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_CERTIFICATES_H_
