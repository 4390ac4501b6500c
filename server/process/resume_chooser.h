// Chooses where an attempt begins: at the newest checkpoint with an intact
// manifest.
#ifndef TRIBUTARY_SERVER_PROCESS_RESUME_CHOOSER_H_
#define TRIBUTARY_SERVER_PROCESS_RESUME_CHOOSER_H_

#include <optional>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/process/server_options.h"

namespace tributary {

// Chooses the checkpoint that an attempt (one run of the protocol) begins from.
// Logs each skipped folder once. Not thread-safe.
class ResumeChooser {
 public:
  // `options` must outlive this object.
  explicit ResumeChooser(const ServerOptions& options);

  // From now on, prefers this run's own checkpoints, which are newer than the
  // checkpoint in ServerOptions::resume_from. The checkpoint in resume_from is
  // still used if this run has no usable checkpoint. With
  // ServerOptions::resume, the chooser prefers this run's checkpoints from the
  // start.
  void UseOwn() { use_own_ = true; }
  // Returns true if the chooser prefers this run's own checkpoints.
  bool uses_own() const { return use_own_; }
  // From now on, excludes the damaged checkpoint `folder`.
  void SetDamaged(const std::string& folder) { damaged_.insert(folder); }

  // Returns the newest checkpoint that has an intact manifest and is not
  // excluded by SetDamaged, or the finished model if that is newer. Returns
  // nullopt if the job begins at step 0. Reads only the manifest of a
  // checkpoint, unless the manifest shows that this job is complete: then
  // verifies all files. Returns NotFound if ServerOptions::resume_from is set,
  // but its folder has no usable checkpoint, and this run has none or
  // uses_own() is false. Returns the errors of ListCheckpoints.
  absl::StatusOr<std::optional<ResumePoint>> Choose();

 private:
  absl::StatusOr<std::optional<ResumePoint>> NewestIn(
      const std::string& folder);
  std::optional<ResumePoint> Try(const std::string& folder);
  // Returns the run's final model, or nullopt if it does not exist, is damaged
  // or is not of this job.
  std::optional<ResumePoint> TryFinal();
  void WarnOfAnotherResult(const std::string& folder,
                           const CheckpointManifest& manifest) const;

  const ServerOptions& options_;
  const std::string own_;
  const std::string final_;
  bool use_own_;
  std::set<std::string> damaged_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_RESUME_CHOOSER_H_
