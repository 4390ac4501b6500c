#include "server/process/resume_chooser.h"

#include <utility>
#include <vector>

#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/job_changes.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/process/resume_check.h"

namespace tributary {

ResumeChooser::ResumeChooser(const ServerOptions& options)
    : options_(options),
      own_(CheckpointsFolder(options.output_directory)),
      final_(FinalFolder(options.output_directory)),
      use_own_(options.resume) {}

absl::StatusOr<std::optional<ResumePoint>> ResumeChooser::Choose() {
  if (use_own_) {
    TRIBUTARY_ASSIGN_OR_RETURN(std::optional<ResumePoint> found,
                               NewestIn(own_));
    if (!found.has_value() || !found->manifest.complete()) {
      // If the disk was full at the end, the final model exists without a
      // checkpoint of the last step.
      std::optional<ResumePoint> finished = TryFinal();
      if (finished.has_value()) return finished;
    }
    if (found.has_value()) return found;
  }
  if (options_.resume_from.empty()) return std::optional<ResumePoint>();
  // `resume_from` is either a checkpoint or a run's folder.
  std::optional<ResumePoint> found = Try(options_.resume_from);
  if (!found.has_value()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        found, NewestIn(CheckpointsFolder(options_.resume_from)));
  }
  if (found.has_value()) return found;
  return NoCheckpointIn(options_.resume_from);
}

absl::StatusOr<std::optional<ResumePoint>> ResumeChooser::NewestIn(
    const std::string& folder) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CheckpointName> checkpoints,
                             ListCheckpoints(folder));
  for (const CheckpointName& checkpoint : checkpoints) {
    std::optional<ResumePoint> found = Try(checkpoint.path);
    if (found.has_value()) return found;
    if (damaged_.insert(checkpoint.path).second) {
      options_.log->Error("%s has no manifest and is skipped", checkpoint.path);
    }
  }
  return std::optional<ResumePoint>();
}

std::optional<ResumePoint> ResumeChooser::Try(const std::string& folder) {
  if (damaged_.count(folder) > 0) return std::nullopt;
  absl::StatusOr<CheckpointManifest> manifest = ReadManifest(folder);
  absl::Status status = manifest.status();
  if (status.ok()) {
    if (!IsOfJob(*manifest, options_.job)) manifest->set_complete(false);
    WarnOfAnotherResult(folder, *manifest);
    // If the job is complete, no server reads the checkpoint, so it is verified
    // here.
    if (manifest->complete()) status = VerifyCheckpoint(folder);
  }
  if (status.ok()) return ResumePoint{folder, *std::move(manifest)};
  if (!absl::IsNotFound(status)) {
    options_.log->Error("this checkpoint cannot be used: %s",
                        std::string(status.message()));
    SetDamaged(folder);
  }
  return std::nullopt;
}

std::optional<ResumePoint> ResumeChooser::TryFinal() {
  const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(final_);
  // A longer job cannot resume from the final model, which lacks the optimizer
  // state.
  if (manifest.ok() &&
      !(manifest->complete() && IsOfJob(*manifest, options_.job))) {
    return std::nullopt;
  }
  return Try(final_);
}

void ResumeChooser::WarnOfAnotherResult(
    const std::string& folder, const CheckpointManifest& manifest) const {
  const absl::StatusOr<JobSpec> was = ParseJob(manifest.job(), "manifest");
  std::string changes = was.ok()
                            ? PrintChanges(ResultChanges(*was, options_.job))
                            : std::string(was.status().message());
  if (changes.empty() && LengthChangesSchedule(*was, options_.job)) {
    changes =
        "its number of steps differs, and its learning rate schedule depends "
        "on it";
  }
  if (changes.empty()) return;
  options_.log->Warning(
      "the job differs from that of %s: %s; the result will match neither job",
      folder, changes);
}

}  // namespace tributary
