#include "library/job_folder.h"

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
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
  absl::StatusOr<std::unique_ptr<OutputDirectory>> claimed =
      OutputDirectory::Claim(
          options.output_directory,
          EarlierRun(options.resume ? kResumeAuto : "", options.overwrite));
  if (absl::IsFailedPrecondition(claimed.status())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "output_directory ", options.output_directory,
        " holds results of another run: choose another folder, or set resume "
        "or overwrite"));
  }
  TRIBUTARY_RETURN_IF_ERROR(claimed.status());
  folder->claimed_ = *std::move(claimed);
  return folder;
}

}  // namespace tributary
