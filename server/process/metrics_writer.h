// Writes metrics.jsonl and events.jsonl on a separate thread, so that training
// never waits for the disk.
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
#include "common/os/logger.h"
#include "proto/rendezvous.pb.h"
#include "server/process/run_output.h"

namespace tributary {

// Queues changes of metrics.jsonl and events.jsonl, and applies them in order.
// Only Flush and the destructor, which flushes, block. The other methods may be
// called with locks held. Thread-safe.
class MetricsWriter {
 public:
  // Largest number of lines that wait to be written. At a thousand lines per
  // second, no line is dropped if the disk does not respond for up to 16 s. The
  // waiting lines then take about 5 MB of memory.
  static constexpr int64_t kMostWaiting = 16384;

  // Writes on `thread`, which must run one task at a time. After writing a line
  // of metrics.jsonl, even if that failed, calls `on_line` with the line on the
  // same thread. `on_line` may be null. `output` and `log` must outlive this
  // object.
  MetricsWriter(RunOutput* output, Logger* log,
                std::unique_ptr<Executor> thread,
                std::function<void(const std::string&)> on_line = nullptr);

  // Queues a call of RunOutput::RewindMetrics. Calls `done` with the result of
  // that call, on the writing thread.
  void Rewind(int64_t step, int64_t evaluated_step,
              std::function<void(const absl::Status&)> done);
  // Queues a call of RunOutput::AppendMetrics. If kMostWaiting lines are
  // waiting, drops `line` and later logs a warning with the number of dropped
  // lines.
  void Append(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);
  // Queues a call of RunOutput::AppendEvent with the event as one line of JSON.
  // kMostWaiting also applies to these lines.
  void AppendEvent(const JobEvent& event) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until all earlier calls are done and their lines are written to the
  // files, where they survive a crash of this process.
  void Flush();

 private:
  // Numbers of lines of metrics.jsonl and of events.jsonl that were dropped.
  struct Dropped {
    int64_t metrics = 0;
    int64_t events = 0;
  };

  // Returns true if a line may be queued. If kMostWaiting lines are waiting,
  // returns false and counts the line as dropped, in `counter`.
  bool Admit(int64_t Dropped::*counter) ABSL_LOCKS_EXCLUDED(mu_);
  void Write(const std::string& line) ABSL_LOCKS_EXCLUDED(mu_);
  // Subtracts one written line from the number of waiting lines. If lines were
  // dropped since the last warning, logs a warning for each file that lacks
  // lines.
  void OnWritten() ABSL_LOCKS_EXCLUDED(mu_);

  RunOutput* const output_;
  Logger* const log_;
  const std::function<void(const std::string&)> on_line_;
  absl::Mutex mu_;
  int64_t waiting_ ABSL_GUARDED_BY(mu_) = 0;
  // The lines that were dropped since the last warning about dropped lines.
  Dropped dropped_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<Executor> thread_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_METRICS_WRITER_H_
