#include "library/job_folder.h"

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<JobFolder>> JobFolder::Create(
    const Job::Options& options) {
  auto folder = absl::WrapUnique(new JobFolder());
  if (options.output_directory.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(folder->temporary_,
                               TemporaryDirectory::Create());
    return folder;
  }
  OutputDirectory::Names names;
  names.folder = "output_directory";
  names.resume = "resume";
  names.overwrite = "overwrite";
  TRIBUTARY_ASSIGN_OR_RETURN(
      folder->claimed_,
      OutputDirectory::Claim(
          options.output_directory,
          EarlierRun(options.resume ? kResumeAuto : "", options.overwrite),
          names));
  return folder;
}

}  // namespace tributary
