// Writes the metrics of a run as TensorBoard event files.
#ifndef TRIBUTARY_SERVER_RECORDS_TENSORBOARD_LOG_H_
#define TRIBUTARY_SERVER_RECORDS_TENSORBOARD_LOG_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/os/logger.h"
#include "common/tensorboard/event_file.h"
#include "proto/job.pb.h"

namespace tributary {

// Writes one file per attempt (one run of the protocol) to the folder
// `tensorboard` of a run. Methods do nothing if output.tensorboard is false. A
// write error loses events but does not stop the training; only the first error
// is logged. Methods block on the disk. Thread-safe.
class TensorBoardLog {
 public:
  // `job` is a result of ResolveJob. `log` must outlive this object.
  TensorBoardLog(const JobSpec& job, const std::string& directory, Logger* log);

  // Creates the file of an attempt that begins after `step` steps. Tells
  // TensorBoard to discard the values in earlier files that come from lines
  // that are no longer in metrics.jsonl. Call it after
  // RunOutput::RewindMetrics.
  void Begin(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds the values of a line of metrics.jsonl.
  void Add(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);
  // Adds to the file whether the job has succeeded. No effect before Begin.
  void End(bool success) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Adds the values of a line unless its step is before `first_step`.
  void AddLine(const std::string& line, int64_t first_step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Logs `status` if it is the first error of this object.
  void Check(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JobSpec job_;
  const std::string folder_;
  const std::string metrics_;
  Logger* const log_;
  absl::Mutex mu_;
  std::unique_ptr<EventFile> file_ ABSL_GUARDED_BY(mu_);
  bool failed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RECORDS_TENSORBOARD_LOG_H_
