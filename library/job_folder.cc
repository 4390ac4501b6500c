#include "library/job_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<JobFolder>> JobFolder::Create(
    const Job::Options& options) {
  if (!options.output_directory.empty()) {
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
    return absl::WrapUnique(
        new JobFolder(options.output_directory, *std::move(claimed)));
  }
  std::error_code error;
  std::string path =
      std::filesystem::temp_directory_path(error) / "tributary-XXXXXX";
  if (error || mkdtemp(path.data()) == nullptr) {
    return FileError(error ? error.value() : errno, "cannot create folder",
                     path);
  }
  return absl::WrapUnique(new JobFolder(std::move(path), nullptr));
}

JobFolder::~JobFolder() {
  if (claimed_ != nullptr) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace tributary
