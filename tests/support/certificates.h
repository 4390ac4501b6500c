// Authorities and certificates for tests, in folders as --tls-dir wants them.
#ifndef TRIBUTARY_TESTS_SUPPORT_CERTIFICATES_H_
#define TRIBUTARY_TESTS_SUPPORT_CERTIFICATES_H_

#include <string>

#include "absl/time/time.h"
#include "common/transport/certificates.h"
#include "common/transport/security.h"

namespace tributary {

// A new authority.
CertificateAndKey TestAuthority();

// Makes a folder with `authorities` as ca.pem and certificates of `issuer` for
// all roles, good for `validity` from an hour ago; or replaces what is there.
void WriteTlsDirectory(const std::string& directory,
                       const CertificateAndKey& issuer,
                       const std::string& authorities,
                       absl::Duration validity = absl::Hours(2));

// The same with a new authority of its own.
void WriteTlsDirectory(const std::string& directory);

// What LoadSecurity would make of the folder, unchecked.
Security TestSecurity(const std::string& directory, Role role,
                      const std::string& token = "");

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_CERTIFICATES_H_
