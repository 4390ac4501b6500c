// The output folder of a Job.
#ifndef TRIBUTARY_LIBRARY_JOB_FOLDER_H_
#define TRIBUTARY_LIBRARY_JOB_FOLDER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "deploy/flags/output_directory.h"
#include "tributary/job.h"

namespace tributary {

// The output folder that the options name, claimed exclusively for this job. If
// they name none, a temporary folder, which the destructor removes with its
// contents.
class JobFolder {
 public:
  // Claims or creates the folder. Returns the errors of OutputDirectory::Claim,
  // or the system's error if a temporary folder cannot be created.
  static absl::StatusOr<std::unique_ptr<JobFolder>> Create(
      const Job::Options& options);
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  JobFolder(std::string path, std::unique_ptr<OutputDirectory> claimed)
      : path_(std::move(path)), claimed_(std::move(claimed)) {}

  const std::string path_;
  // Null if the folder is temporary.
  const std::unique_ptr<OutputDirectory> claimed_;
};

}  // namespace tributary

#endif  // TRIBUTARY_LIBRARY_JOB_FOLDER_H_
