// Writes metrics.jsonl on a thread of its own, so that training never waits for
// the disk.
#ifndef TRIBUTARY_SERVER_PROCESS_METRICS_WRITER_H_
#define TRIBUTARY_SERVER_PROCESS_METRICS_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/os/log.h"
#include "server/process/run_output.h"

namespace tributary {

// Thread-safe. What is asked for is done in the order of the calls. Only Flush
// blocks; the others may be called with locks held. Destruction flushes.
class MetricsWriter {
 public:
  // Lines that may wait to be written. A job that writes a thousand lines a
  // second can go on for 16 s while the disk does not answer; the lines take
  // about 5 MB then.
  static constexpr int64_t kMostWaiting = 16384;

  // Both must outlive this object.
  MetricsWriter(RunOutput* output, Logger* log);
  // `thread` runs one task at a time.
  MetricsWriter(RunOutput* output, Logger* log,
                std::unique_ptr<Executor> thread);

  // RunOutput::RewindMetrics; `done` is called with its result, on the thread
  // that writes.
  void Rewind(int64_t step, int64_t evaluated_step,
              std::function<void(const absl::Status&)> done);
  // RunOutput::AppendMetrics. Where kMostWaiting lines wait, this one is
  // dropped, and a warning tells how many were.
  void Append(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until what was asked for before has been handed to the system: a
  // crash of this process does not lose it.
  void Flush();

 private:
  void Write(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);

  RunOutput* const output_;
  Logger* const log_;
  absl::Mutex mu_;
  int64_t waiting_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t dropped_ ABSL_GUARDED_BY(mu_) = 0;  // Since the last warning.
  std::unique_ptr<Executor> thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_METRICS_WRITER_H_
