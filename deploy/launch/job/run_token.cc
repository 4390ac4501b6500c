#include "deploy/launch/job/run_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"

namespace tributary {
namespace {

// A token is a line of 64 characters.
constexpr int64_t kMostTokenBytes = 256;
constexpr char kTokenName[] = "token";

}  // namespace

RunToken::RunToken(std::string path) : path_(std::move(path)) {}

RunToken::~RunToken() { unlink(path_.c_str()); }

absl::StatusOr<std::unique_ptr<RunToken>> RunToken::Create(
    const std::string& folder, SecurityFlags* flags, Security* own) {
  if (!flags->tls_dir.empty() || !flags->token_file.empty() ||
      flags->credentials_fd >= 0) {
    return nullptr;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string token, MakeToken());
  // The processes of the job may run in a different folder.
  const std::string path =
      absl::StrCat(std::filesystem::absolute(folder).string(), "/", kTokenName);
  const std::string line = absl::StrCat(token, "\n");
  unlink(path.c_str());  // A launcher that was killed has left it.
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
           S_IRUSR | S_IWUSR);
  if (fd < 0) return FileError(errno, "cannot create", path);
  std::unique_ptr<RunToken> created(new RunToken(path));
  const ssize_t written = write(fd, line.data(), line.size());
  const int error = written < 0 ? errno : ENOSPC;
  close(fd);
  if (written != static_cast<ssize_t>(line.size())) {
    return FileError(error, "cannot write", path);
  }
  flags->token_file = path;
  own->role = Role::kAdmin;
  own->token = token;
  return created;
}

Security CredentialsOfRun(const UntrustedFolder& folder,
                          const Security& given) {
  Security security = given;
  if (given.any()) return security;
  const absl::StatusOr<std::string> text =
      folder.Read(kTokenName, kMostTokenBytes);
  if (text.ok()) {
    security.token = std::string(absl::StripAsciiWhitespace(*text));
  }
  return security;
}

}  // namespace tributary
