// The credentials of a process: TLS certificates of one authority and the job's
// token.
#ifndef TRIBUTARY_COMMON_TRANSPORT_SECURITY_H_
#define TRIBUTARY_COMMON_TRANSPORT_SECURITY_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "common/transport/token_file.h"

namespace tributary {

// The role of a process, which determines the methods that it may call on its
// peers.
enum class Role { kServer, kWorker, kAdmin };

inline constexpr Role kAllRoles[] = {Role::kServer, Role::kWorker,
                                     Role::kAdmin};

// Returns "server", "worker" or "admin".
const char* RoleName(Role role);

// Returns the DNS name (subject alternative name) that states the role in a
// certificate, such as "server.tributary". It does not contain the name of a
// machine, so a certificate is valid on every machine.
std::string RoleDnsName(Role role);
// Returns the role that `name` states, or nullopt if `name` is not the
// RoleDnsName of any role.
absl::optional<Role> RoleOfDnsName(absl::string_view name);

// Credentials for TLS, as PEM text instead of files.
struct TlsTexts {
  std::string ca;           // The certificates of the authorities.
  std::string certificate;  // The certificate chain of the process's role.
  std::string key;          // The private key of the first certificate.
};

// The security settings of a process. Without `tls_directory` and `tls_texts`,
// TLS is disabled; an empty `token` disables the check of the token.
struct Security {
  // The directory with ca.pem, ROLE.pem (the certificate chain of `role`) and
  // ROLE-key.pem (its private key). Changed files are reloaded.
  std::string tls_directory;
  // Used if `tls_directory` is empty and `tls_texts.key` is not.
  TlsTexts tls_texts;
  Role role = Role::kWorker;
  // The job's token, which is sent with every call.
  std::string token;
  // The file from which `token` was read; its newer tokens replace `token`.
  // Null if the token does not change.
  std::shared_ptr<const TokenFile> token_file;

  bool tls() const { return !tls_directory.empty() || !tls_texts.key.empty(); }
  bool any() const { return tls() || !token.empty(); }
  // Returns the tokens that this process accepts, of which it sends the first.
  // Empty if the check of the token is disabled.
  std::vector<std::string> Tokens() const;
  std::string CaPath() const;
  std::string CertificatePath() const;
  std::string KeyPath() const;
};

// Loads and checks the security settings. The files must exist. Uses the first
// of `roles` whose certificate exists. The certificate must belong to the key,
// be issued by the authority, name the role and be valid now. Reads the token
// from `token_file`, and follows the file's changes as TokenFile describes.
// Either path may be empty, which disables TLS or the token. Returns NotFound
// if there is no certificate for any of `roles` or another file is missing,
// InvalidArgument if a file cannot be used, and the system's error if a file
// cannot be read. The message names the file and the problem.
absl::StatusOr<Security> LoadSecurity(const std::string& tls_directory,
                                      const std::string& token_file,
                                      const std::vector<Role>& roles);

// Returns `security` with the contents of its TLS files in `tls_texts` and an
// empty `tls_directory`. Returns the system's error if a file cannot be read.
absl::StatusOr<Security> WithTexts(Security security);

// Returns a random token for one job. Returns an error only if OpenSSL fails.
absl::StatusOr<std::string> MakeToken();

// Creates a certificate authority for one job, and returns the credentials of
// each role: a certificate that this authority has issued, and a token that is
// the same for all roles. The authority's key exists only within this function.
// Returns an error only if OpenSSL fails.
absl::StatusOr<std::map<Role, Security>> MakeJobSecurity(absl::Time not_before,
                                                         absl::Time not_after);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_SECURITY_H_
