#include "server/process/metrics_writer.h"

#include <utility>

#include "common/base/monotonic_clock.h"
#include "common/event/job_event.h"
#include "common/text/counted.h"

namespace tributary {

MetricsWriter::MetricsWriter(RunOutput* output, Logger* log,
                             std::unique_ptr<Executor> thread,
                             std::function<void(const std::string&)> on_line)
    : output_(output),
      log_(log),
      on_line_(std::move(on_line)),
      thread_(std::move(thread)) {}

void MetricsWriter::Rewind(int64_t step, int64_t evaluated_step,
                           std::function<void(const absl::Status&)> done) {
  thread_->Run([this, step, evaluated_step, done = std::move(done)] {
    done(output_->RewindMetrics(step, evaluated_step));
  });
}

bool MetricsWriter::Admit(int64_t Dropped::*counter) {
  absl::MutexLock lock(&mu_);
  if (waiting_ == kMostWaiting) {
    ++(dropped_.*counter);
    return false;
  }
  ++waiting_;
  return true;
}

void MetricsWriter::Append(const std::string& line) {
  if (!Admit(&Dropped::metrics)) return;
  thread_->Run([this, line] { Write(line); });
}

void MetricsWriter::AppendEvent(const JobEvent& event) {
  if (!Admit(&Dropped::events)) return;
  thread_->Run([this, event] {
    output_->AppendEvent(EventLine(event));
    OnWritten();
  });
}

void MetricsWriter::Write(const std::string& line) {
  output_->AppendMetrics(line);
  if (on_line_) on_line_(line);
  OnWritten();
}

void MetricsWriter::OnWritten() {
  Dropped dropped;
  {
    absl::MutexLock lock(&mu_);
    --waiting_;
    dropped = std::exchange(dropped_, {});
  }
  if (dropped.metrics > 0) {
    log_->Warning(
        "metrics.jsonl lacks %s: the disk was too slow, and %d lines were "
        "waiting for it; a larger output.log_every_steps makes fewer lines",
        Counted(dropped.metrics, "line"), kMostWaiting);
  }
  if (dropped.events > 0) {
    log_->Warning(
        "events.jsonl lacks %s: the disk was too slow, and %d lines were "
        "waiting for it",
        Counted(dropped.events, "line"), kMostWaiting);
  }
}

void MetricsWriter::Flush() {
  absl::Mutex mu;
  bool written = false;
  thread_->Run([&] {
    absl::MutexLock lock(&mu);
    written = true;
  });
  absl::MutexLock lock(&mu);
  Await(&mu, absl::Condition(&written));
}

}  // namespace tributary
