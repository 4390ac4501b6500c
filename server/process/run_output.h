// What a job leaves behind in its output folder: job.textproto, metrics.jsonl,
// final/model.safetensors, summary.json.
#ifndef TRIBUTARY_SERVER_PROCESS_RUN_OUTPUT_H_
#define TRIBUTARY_SERVER_PROCESS_RUN_OUTPUT_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/os/log.h"
#include "common/parameters/parameter_table.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"

namespace tributary {

// Thread-safe.
class RunOutput {
 public:
  // Makes the folder and those above it. PermissionDenied or another code of
  // the file system, naming the path, if that cannot be.
  // `log` must outlive this object.
  static absl::StatusOr<std::unique_ptr<RunOutput>> Create(
      const std::string& directory, Logger* log);

  // job.textproto. In a folder that has a run already: not before it is certain
  // that this job goes on with it.
  absl::Status WriteJob(const JobSpec& job);

  // Names the run whose results are in this folder, on the disk if that can be.
  // `begins`: gives it a new name.
  std::string RunId(bool begins);

  // A number that has not been used in this folder: one more than the last. It
  // is on the disk when this returns.
  absl::StatusOr<int64_t> NextAttempt();
  // FailedPrecondition when somebody else has used NextAttempt since it gave
  // `attempt`.
  absl::Status CheckAttempt(int64_t attempt) const;

  // Takes the lines of steps after `step`, and of evaluations after
  // `evaluated_step`, out of metrics.jsonl: they will come again. To be called
  // before AppendMetrics.
  absl::Status RewindMetrics(int64_t step, int64_t evaluated_step)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Adds a line to metrics.jsonl. A full disk costs the line, never the
  // training: the first failure is logged.
  void AppendMetrics(const nlohmann::ordered_json& line)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Writes the model of FinalFolder from a whole arena. Returns the SHA-256
  // (hex) of the float32 weights in the order of the table, without gaps.
  absl::StatusOr<std::string> WriteModel(const ArenaLayout& layout,
                                         const float* weights);

  absl::Status WriteSummary(const nlohmann::ordered_json& summary);

 private:
  RunOutput(std::string directory, Logger* log)
      : directory_(std::move(directory)), log_(log) {}

  const std::string directory_;
  Logger* const log_;
  absl::Mutex mu_;
  std::ofstream metrics_ ABSL_GUARDED_BY(mu_);
  bool metrics_failed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_RUN_OUTPUT_H_
