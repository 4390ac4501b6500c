// Where an attempt at a job begins: at the newest checkpoint that is good.
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

// For one thread. Says on the log what it passes over, each folder once.
class ResumeChooser {
 public:
  // `options` must outlive this object.
  explicit ResumeChooser(const ServerOptions& options);

  // From now on this run's own checkpoints count: they are newer than what it
  // was started from.
  void UseOwn() { use_own_ = true; }
  bool uses_own() const { return use_own_; }
  // It cannot be used.
  void SetDamaged(const std::string& folder) { damaged_.insert(folder); }

  // Of the good ones the newest, or the finished model where that is newer;
  // nullopt: from the start. NotFound if the one that was asked for
  // (ServerOptions::resume_from) has none.
  absl::StatusOr<std::optional<ResumePoint>> Choose();

 private:
  absl::StatusOr<std::optional<ResumePoint>> NewestIn(
      const std::string& folder);
  std::optional<ResumePoint> Try(const std::string& folder);
  // The run's finished model.
  std::optional<ResumePoint> TryFinal();
  // But for what does not change the result.
  bool IsOfThisJob(const CheckpointManifest& manifest) const;
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
