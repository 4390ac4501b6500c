// The token of a job that a launcher runs on this machine.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_TOKEN_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_TOKEN_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/os/untrusted_folder.h"
#include "common/transport/security.h"
#include "deploy/flags/security_flags.h"

namespace tributary {

// The file `token` in the folder of a run, which only the user who has started
// the run can read. The processes of the job, and `tributary status` and
// `tributary dashboard` of the same user, find the job's token in it; other
// users of the machine cannot join the job or read its weights. The destructor
// removes the file.
class RunToken {
 public:
  // Creates a random token and its file in `folder`. If `flags` already names
  // credentials, returns null. Otherwise sets `flags->token_file`, for the
  // processes of the job, and `*own`, for the launcher itself. Returns the
  // system's error if the file cannot be written.
  static absl::StatusOr<std::unique_ptr<RunToken>> Create(
      const std::string& folder, SecurityFlags* flags, Security* own);
  ~RunToken();
  RunToken(const RunToken&) = delete;
  RunToken& operator=(const RunToken&) = delete;

 private:
  explicit RunToken(std::string path);

  const std::string path_;
};

// Returns the credentials for the coordinator of the run in `folder`: `given`,
// if the user has given some; otherwise the token of the run, if the folder has
// one that the current user can read. Pass them to AddressOfRun
// (deploy/tools/status/run_address.h), which knows where they may be sent.
Security CredentialsOfRun(const UntrustedFolder& folder, const Security& given);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_RUN_TOKEN_H_
