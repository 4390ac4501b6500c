// Sends the records of a process to the coordinator.
#ifndef TRIBUTARY_COMMON_TRACE_TRACE_SENDER_H_
#define TRIBUTARY_COMMON_TRACE_TRACE_SENDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/trace/clock_offset.h"
#include "common/trace/trace_recorder.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Owns the recorder of one process, measures the offset of its clock, and sends
// its records in messages of bounded size. The process has this object only if
// the job has output.trace. Thread-safe.
class TraceSender {
 public:
  // Sends one message. Called with the sender's lock held; must not block and
  // must not call the sender.
  struct Send {
    // Null in the coordinator's own process, whose clock needs no probes.
    std::function<void(const ClockProbe&)> probe;
    std::function<void(const TraceRecords&)> records;
  };
  TraceSender(const TracedSteps& steps, Send send);

  TraceRecorder* recorder() { return &recorder_; }

  // Sends a probe. Call it when the coordinator can answer; the answers then
  // send further probes.
  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
  // Handles the answer to a probe.
  void OnReading(const ClockReading& reading) ABSL_LOCKS_EXCLUDED(mu_);
  // Call it regularly, at most several times a second. Sends another probe
  // and, after the traced steps, some of the records. `step` is the first step
  // that is not complete in this process.
  void Beat(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends all remaining records. No more records follow.
  void Finish() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Probe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends one message. Returns false if nothing is left.
  bool SendSome(bool last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Send send_;
  TraceRecorder recorder_;
  absl::Mutex mu_;
  ClockOffset offset_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  int beats_after_ ABSL_GUARDED_BY(mu_) = 0;  // Beats after the traced steps.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRACE_TRACE_SENDER_H_
