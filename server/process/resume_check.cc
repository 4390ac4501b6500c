#include "server/process/resume_check.h"

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/job_changes.h"
#include "proto/checkpoint.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/membership/peer_checks.h"

namespace tributary {
namespace {

struct Found {
  std::string folder;
  CheckpointManifest manifest;
  bool has_state = true;  // False for the final model.
};

std::optional<Found> ManifestIn(const std::string& folder) {
  absl::StatusOr<CheckpointManifest> manifest = ReadManifest(folder);
  if (!manifest.ok()) return std::nullopt;
  return Found{folder, *std::move(manifest)};
}

absl::StatusOr<std::optional<Found>> NewestIn(const std::string& run) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                             ListCheckpoints(CheckpointsFolder(run)));
  for (const CheckpointName& checkpoint : checkpoints) {
    std::optional<Found> found = ManifestIn(checkpoint.path);
    if (found.has_value()) return found;
  }
  return std::optional<Found>();
}

// Returns the newest checkpoint. Searches in the same order as ResumeChooser.
absl::StatusOr<std::optional<Found>> Newest(const ResumeRequest& request) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::optional<Found> found,
                             NewestIn(request.output_directory));
  if (found.has_value()) return found;
  found = ManifestIn(FinalFolder(request.output_directory));
  if (found.has_value()) {
    found->has_state = false;
    return found;
  }
  if (request.resume_from.empty()) return found;
  found = ManifestIn(request.resume_from);
  if (found.has_value()) return found;
  return NewestIn(request.resume_from);
}

absl::Status CheckChanges(const Found& found, const JobSpec& job) {
  const absl::StatusOr<JobSpec> was =
      ParseJob(found.manifest.job(), absl::StrCat(found.folder, ": its job"));
  const std::string changes =
      was.ok() ? PrintChanges(ResultChanges(*was, job))
               : absl::StrCat("its job cannot be read: ",
                              std::string(was.status().message()));
  if (changes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the job differs from that of ", found.folder, ": ", changes,
      "; restore the old values, choose another --output, or resume with "
      "--allow-job-changes: the result then matches neither job"));
}

}  // namespace

absl::Status CheckResumeRequest(const ResumeRequest& request) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::optional<Found> found, Newest(request));
  if (!found.has_value()) {
    return request.resume_from.empty() ? absl::OkStatus()
                                       : NoCheckpointIn(request.resume_from);
  }
  if (!request.allow_job_changes) {
    TRIBUTARY_RETURN_IF_ERROR(CheckChanges(*found, request.job));
  }
  if (!found->has_state) return absl::OkStatus();
  TRIBUTARY_RETURN_IF_ERROR(CheckState(found->manifest, request.job));
  // The number of steps in an epoch depends on the data, which are not read
  // here.
  return request.job.has_steps()
             ? CheckSteps(found->manifest, request.job, request.job.steps())
             : absl::OkStatus();
}

bool IsOfJob(const CheckpointManifest& manifest, const JobSpec& job) {
  const absl::StatusOr<JobSpec> was = ParseJob(manifest.job(), "manifest");
  return was.ok() && SameEnd(*was, job) && ResultChanges(*was, job).empty();
}

absl::Status NoCheckpointIn(const std::string& resume_from) {
  return absl::NotFoundError(absl::StrCat("no checkpoint that can be used in ",
                                          resume_from,
                                          "; see `tributary checkpoint ls`"));
}

}  // namespace tributary
