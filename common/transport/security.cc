#include "common/transport/security.h"

#include <openssl/rand.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/transport/certificates.h"

namespace tributary {
namespace {

constexpr char kDnsSuffix[] = ".tributary";
constexpr int64_t kMaxPemBytes = 1 << 20;

absl::Status CheckFiles(const Security& security) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string authorities,
                             ReadFile(security.CaPath(), kMaxPemBytes));
  CertificateAndKey own;
  TRIBUTARY_ASSIGN_OR_RETURN(
      own.certificate, ReadFile(security.CertificatePath(), kMaxPemBytes));
  TRIBUTARY_ASSIGN_OR_RETURN(own.key,
                             ReadFile(security.KeyPath(), kMaxPemBytes));
  const absl::Status checked =
      CheckCertificate(authorities, own, RoleDnsName(security.role));
  if (checked.ok()) return checked;
  return absl::InvalidArgumentError(absl::StrCat(
      security.CertificatePath(), " (with ", security.KeyPath(), " and ",
      security.CaPath(), ") cannot be used: ", checked.message(),
      "; create new ones (for tests: `tributary certs DIR`)"));
}

absl::Status FindRole(const std::vector<Role>& roles, Security* security) {
  for (const Role role : roles) {
    security->role = role;
    if (PathExists(security->CertificatePath())) return absl::OkStatus();
  }
  security->role = roles.front();
  return absl::NotFoundError(absl::StrCat(
      "--tls-dir ", security->tls_directory, " has no ",
      RoleName(security->role), ".pem; it must hold ca.pem, ",
      RoleName(security->role), ".pem and ", RoleName(security->role),
      "-key.pem (for tests: `tributary certs DIR`)"));
}

}  // namespace

const char* RoleName(Role role) {
  switch (role) {
    case Role::kServer:
      return "server";
    case Role::kWorker:
      return "worker";
    case Role::kAdmin:
      break;
  }
  return "admin";
}

std::string RoleDnsName(Role role) {
  return absl::StrCat(RoleName(role), kDnsSuffix);
}

absl::optional<Role> RoleOfDnsName(absl::string_view name) {
  if (!absl::ConsumeSuffix(&name, kDnsSuffix)) return absl::nullopt;
  for (const Role role : kAllRoles) {
    if (name == RoleName(role)) return role;
  }
  return absl::nullopt;
}

std::vector<std::string> Security::Tokens() const {
  if (token_file != nullptr) return token_file->tokens();
  if (token.empty()) return {};
  return {token};
}

std::string Security::CaPath() const {
  return absl::StrCat(tls_directory, "/ca.pem");
}

std::string Security::CertificatePath() const {
  return absl::StrCat(tls_directory, "/", RoleName(role), ".pem");
}

std::string Security::KeyPath() const {
  return absl::StrCat(tls_directory, "/", RoleName(role), "-key.pem");
}

absl::StatusOr<Security> LoadSecurity(const std::string& tls_directory,
                                      const std::string& token_file,
                                      const std::vector<Role>& roles) {
  Security security;
  security.role = roles.front();
  security.tls_directory = tls_directory;
  if (security.tls()) {
    TRIBUTARY_RETURN_IF_ERROR(FindRole(roles, &security));
    TRIBUTARY_RETURN_IF_ERROR(CheckFiles(security));
  }
  if (!token_file.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(security.token_file,
                               TokenFile::Open(token_file));
    security.token = security.token_file->tokens().front();
  }
  return security;
}

absl::StatusOr<Security> WithTexts(Security security) {
  if (security.tls_directory.empty()) return security;
  TRIBUTARY_ASSIGN_OR_RETURN(security.tls_texts.ca,
                             ReadFile(security.CaPath(), kMaxPemBytes));
  TRIBUTARY_ASSIGN_OR_RETURN(
      security.tls_texts.certificate,
      ReadFile(security.CertificatePath(), kMaxPemBytes));
  TRIBUTARY_ASSIGN_OR_RETURN(security.tls_texts.key,
                             ReadFile(security.KeyPath(), kMaxPemBytes));
  security.tls_directory.clear();
  return security;
}

absl::StatusOr<std::string> MakeToken() {
  unsigned char token[32];
  if (RAND_bytes(token, sizeof(token)) != 1) {
    return absl::InternalError("OpenSSL cannot create random bytes");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(token), sizeof(token)));
}

absl::StatusOr<std::map<Role, Security>> MakeJobSecurity(absl::Time not_before,
                                                         absl::Time not_after) {
  CertificateRequest request;
  request.not_before = not_before;
  request.not_after = not_after;
  request.common_name = "Tributary job authority";
  TRIBUTARY_ASSIGN_OR_RETURN(const CertificateAndKey authority,
                             MakeAuthority(request));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string token, MakeToken());
  std::map<Role, Security> result;
  for (const Role role : kAllRoles) {
    request.common_name = absl::StrCat("Tributary ", RoleName(role));
    request.dns_name = RoleDnsName(role);
    TRIBUTARY_ASSIGN_OR_RETURN(const CertificateAndKey issued,
                               IssueCertificate(request, authority));
    Security& security = result[role];
    security.role = role;
    security.tls_texts = {authority.certificate, issued.certificate,
                          issued.key};
    security.token = token;
  }
  return result;
}

}  // namespace tributary
