// The folder that a run writes to.
#ifndef TRIBUTARY_DEPLOY_OUTPUT_DIRECTORY_H_
#define TRIBUTARY_DEPLOY_OUTPUT_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tributary {

// runs/<name>-<YYYYMMDD-HHMMSS>, with characters that need care in a shell
// replaced by '-'.
std::string DefaultOutputDirectory(const std::string& job_name, absl::Time now,
                                   absl::TimeZone zone);

// A folder that this process alone, among those that ask, writes to. The claim
// ends with this object, or with the process.
class OutputDirectory {
 public:
  // Makes the folder, and those above it. FailedPrecondition if it holds the
  // summary of an earlier run, unless `overwrite`: then what that run left is
  // removed. Unavailable if another process claims it.
  static absl::StatusOr<std::unique_ptr<OutputDirectory>> Claim(
      const std::string& path, bool overwrite);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  OutputDirectory(std::string path, int fd);

  const std::string path_;
  const int fd_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_OUTPUT_DIRECTORY_H_
