#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/transport/certificates.h"
#include "common/transport/security.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"

namespace tributary {
namespace {

struct CertsFlags {
  std::string directory;
  int64_t days = 30;
};

struct NewFile {
  std::string name;
  std::string contents;
  mode_t mode = 0644;
};

std::unique_ptr<CommandLine> MakeCommandLine(CertsFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "certs", "DIR",
      "Creates a certificate authority and one certificate for each role "
      "(server, worker, admin), for --tls-dir. For tests only: the authority's "
      "private key is stored unencrypted in the same folder. Never overwrites "
      "files.",
      std::vector<CommandLine::Example>{
          {"certs tls", "Create tls/ca.pem, tls/server.pem and so on."},
          {"train --tls-dir tls", "Train with them on this machine."}});
  line->SetOperand(/*required=*/true, &flags->directory);
  line->AddInteger("days",
                   "Days for which the certificates are valid. Default 30.", 1,
                   3650, &flags->days);
  return line;
}

// Creates all files, or none if one of them exists.
absl::Status WriteNew(const std::string& directory,
                      const std::vector<NewFile>& files) {
  for (const NewFile& file : files) {
    const std::string path = absl::StrCat(directory, "/", file.name);
    struct stat info;
    if (lstat(path.c_str(), &info) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path,
                       " exists already; choose another folder, or remove the "
                       "files in this one"));
    }
  }
  for (const NewFile& file : files) {
    const std::string path = absl::StrCat(directory, "/", file.name);
    const int descriptor =
        open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file.mode);
    if (descriptor < 0) return FileError(errno, "cannot create", path);
    const ssize_t size = static_cast<ssize_t>(file.contents.size());
    const bool written =
        write(descriptor, file.contents.data(), file.contents.size()) == size;
    const int error = errno;
    close(descriptor);
    if (!written) return FileError(error, "cannot write", path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NewFile>> MakeFiles(int64_t days) {
  CertificateRequest request;
  // Allows for clock skew within a cluster.
  request.not_before = absl::Now() - absl::Hours(1);
  request.not_after = absl::Now() + absl::Hours(24 * days);
  request.common_name = "Tributary test authority";
  TRIBUTARY_ASSIGN_OR_RETURN(const CertificateAndKey authority,
                             MakeAuthority(request));
  std::vector<NewFile> files = {{"ca.pem", authority.certificate},
                                {"ca-key.pem", authority.key, 0600}};
  for (const Role role : kAllRoles) {
    const std::string name = RoleName(role);
    request.common_name = absl::StrCat("Tributary ", name);
    request.dns_name = RoleDnsName(role);
    TRIBUTARY_ASSIGN_OR_RETURN(CertificateAndKey issued,
                               IssueCertificate(request, authority));
    files.push_back({name + ".pem", std::move(issued.certificate)});
    files.push_back({name + "-key.pem", std::move(issued.key), 0600});
  }
  return files;
}

absl::Status Run(const CertsFlags& flags) {
  std::error_code error;
  std::filesystem::create_directories(flags.directory, error);
  if (error) {
    return FileError(error.value(), "cannot create folder", flags.directory);
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<NewFile> files,
                             MakeFiles(flags.days));
  TRIBUTARY_RETURN_IF_ERROR(WriteNew(flags.directory, files));
  std::printf(
      "%s: certificates for tests, valid for %d days\n"
      "  servers  copy ca.pem, server.pem, server-key.pem\n"
      "  workers  copy ca.pem, worker.pem, worker-key.pem\n"
      "  status   copy ca.pem, admin.pem, admin-key.pem\n"
      "and start each process with --tls-dir and the folder that has them.\n"
      "ca-key.pem can issue more certificates, so do not copy it. In\n"
      "production, have your own authority issue certificates with the DNS\n"
      "names server.tributary, worker.tributary and admin.tributary.\n",
      flags.directory.c_str(), static_cast<int>(flags.days));
  return absl::OkStatus();
}

}  // namespace

int RunCertsCommand(const std::vector<std::string>& arguments,
                    const Environment& environment) {
  CertsFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status status = Run(flags);
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace tributary
