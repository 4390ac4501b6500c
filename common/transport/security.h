// What proves to a peer who we are, and by which we know it: TLS certificates
// of one authority, and the job's token.
#ifndef TRIBUTARY_COMMON_TRANSPORT_SECURITY_H_
#define TRIBUTARY_COMMON_TRANSPORT_SECURITY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tributary {

// What a process is for its peers.
enum class Role { kServer, kWorker, kAdmin };

inline constexpr Role kAllRoles[] = {Role::kServer, Role::kWorker,
                                     Role::kAdmin};

// "server", "worker" or "admin".
const char* RoleName(Role role);

// The DNS name by which a certificate (subject alternative name) says its
// role: "server.tributary". It names no machine, so certificates are good on
// every one.
std::string RoleDnsName(Role role);
absl::optional<Role> RoleOfDnsName(absl::string_view name);

// A value; empty fields: not used.
struct Security {
  // Holds ca.pem and, as ROLE.pem and ROLE-key.pem, the certificate chain and
  // private key of `role`. They are read again when they change.
  std::string tls_directory;
  Role role = Role::kWorker;
  // Every call carries it.
  std::string token;

  bool tls() const { return !tls_directory.empty(); }
  bool any() const { return tls() || !token.empty(); }
  std::string CaPath() const;
  std::string CertificatePath() const;
  std::string KeyPath() const;
};

// Checks that the files are there, and that certificate and key belong
// together, come from the authority, have the role and are valid now; takes the
// first of `roles` whose certificate is there. Reads the token. Either path may
// be empty. The error says what is wrong with which file.
absl::StatusOr<Security> LoadSecurity(const std::string& tls_directory,
                                      const std::string& token_file,
                                      const std::vector<Role>& roles);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_SECURITY_H_
