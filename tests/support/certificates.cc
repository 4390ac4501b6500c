#include "tests/support/certificates.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/file.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

CertificateRequest Request(absl::Duration validity) {
  CertificateRequest request;
  request.not_before = absl::Now() - absl::Hours(1);
  request.not_after = request.not_before + validity;
  return request;
}

void Write(const std::string& path, const std::string& text) {
  EXPECT_EQ(WriteFileAtomically(path, {text}), absl::OkStatus());
}

}  // namespace

CertificateAndKey TestAuthority() {
  CertificateRequest request = Request(absl::Hours(24));
  request.common_name = "authority of a test";
  return MakeAuthority(request).value();
}

void WriteTlsDirectory(const std::string& directory,
                       const CertificateAndKey& issuer,
                       const std::string& authorities,
                       absl::Duration validity) {
  std::filesystem::create_directories(directory);
  CertificateRequest request = Request(validity);
  for (const Role role : kAllRoles) {
    request.common_name = RoleName(role);
    request.dns_name = RoleDnsName(role);
    const CertificateAndKey issued = IssueCertificate(request, issuer).value();
    const Security paths = TestSecurity(directory, role);
    Write(paths.CertificatePath(), issued.certificate);
    Write(paths.KeyPath(), issued.key);
    Write(paths.CaPath(), authorities);
  }
}

void WriteTlsDirectory(const std::string& directory) {
  const CertificateAndKey authority = TestAuthority();
  WriteTlsDirectory(directory, authority, authority.certificate);
}

Security TestSecurity(const std::string& directory, Role role,
                      const std::string& token) {
  Security security;
  security.tls_directory = directory;
  security.role = role;
  security.token = token;
  return security;
}

}  // namespace tributary
