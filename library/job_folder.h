// The output folder of a Job.
#ifndef TRIBUTARY_LIBRARY_JOB_FOLDER_H_
#define TRIBUTARY_LIBRARY_JOB_FOLDER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/os/temporary_directory.h"
#include "deploy/flags/output_directory.h"
#include "tributary/job.h"

namespace tributary {

// The folder that Job::Options::output_directory names, claimed exclusively for
// this job. If that option is empty, the folder is a temporary one, which the
// destructor removes with its contents.
class JobFolder {
 public:
  // Claims or creates the folder. Returns the errors of OutputDirectory::Claim,
  // or the system's error if a temporary folder cannot be created.
  static absl::StatusOr<std::unique_ptr<JobFolder>> Create(
      const Job::Options& options);

  const std::string& path() const {
    return claimed_ != nullptr ? claimed_->path() : temporary_->path();
  }

 private:
  JobFolder() = default;

  // Exactly one of claimed_ and temporary_ is null.
  std::unique_ptr<OutputDirectory> claimed_;
  std::unique_ptr<TemporaryDirectory> temporary_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_FOLDER_H_
