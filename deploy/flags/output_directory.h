// The folder that a run writes to.
#ifndef TRIBUTARY_DEPLOY_FLAGS_OUTPUT_DIRECTORY_H_
#define TRIBUTARY_DEPLOY_FLAGS_OUTPUT_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/flags/command_line.h"

namespace tributary {

// runs/<name>-<YYYYMMDD-HHMMSS>, with characters that need care in a shell
// replaced by '-'.
std::string DefaultOutputDirectory(const std::string& job_name, absl::Time now,
                                   absl::TimeZone zone);

// The same of now and here, with a number behind it where two jobs are started
// within a second: a folder that is not there yet.
std::string FreshOutputDirectory(const std::string& job_name);

// A folder that this process alone, among those that ask, writes to. The claim
// ends with this object, or with the process.
class OutputDirectory {
 public:
  enum class Earlier {
    // A model, checkpoints, or the summary of completed steps are in the way;
    // what a run left that failed before its first step is removed.
    kRefuse,
    kReplace,  // What an earlier run left is removed.
    kResume,   // It is gone on with.
  };
  // Makes the folder, and those above it. FailedPrecondition if an earlier run
  // is in the way. Unavailable if another process claims it.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Claim(
      const std::string& path, Earlier earlier);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  OutputDirectory(std::string path, int fd);

  const std::string path_;
  const int fd_;
};

// --allow-job-changes, of commands that have --resume.
void AddAllowJobChangesFlag(CommandLine* line, bool* allow);

// The value of --resume that means: what --output has.
inline constexpr char kResumeAuto[] = "auto";

// What the flags of the same names say.
inline OutputDirectory::Earlier EarlierRun(const std::string& resume,
                                           bool overwrite) {
  if (!resume.empty()) return OutputDirectory::Earlier::kResume;
  return overwrite ? OutputDirectory::Earlier::kReplace
                   : OutputDirectory::Earlier::kRefuse;
}

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_FLAGS_OUTPUT_DIRECTORY_H_
