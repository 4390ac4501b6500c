// Sends the trace records of a process to the coordinator (server 0).
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

// Owns the TraceRecorder of one process, measures the offset of its clock, and
// sends its records to the coordinator in messages of bounded size. A process
// has this object only if the job sets output.trace. Thread-safe.
class TraceSender {
 public:
  // Functions that send one message each. They are called with the sender's
  // lock held, must not block, and must not call the sender.
  struct Send {
    // Sends a clock probe to the coordinator. Null in the coordinator's own
    // process, whose clock needs no probes.
    std::function<void(const ClockProbe&)> probe;
    std::function<void(const TraceRecords&)> records;

    // Returns functions that wrap each message in a `Report`, a WorkerReport or
    // a ServerReport, and call `report` with it.
    template <typename Report>
    static Send In(const std::function<void(const Report&)>& report) {
      Send send;
      send.probe = [report](const ClockProbe& probe) {
        Report message;
        *message.mutable_clock_probe() = probe;
        report(message);
      };
      send.records = [report](const TraceRecords& records) {
        Report message;
        *message.mutable_trace() = records;
        report(message);
      };
      return send;
    }
  };
  TraceSender(const TracedSteps& steps, Send send);

  TraceRecorder* recorder() { return &recorder_; }

  // Sends the first clock probe. Call this method when the coordinator is ready
  // to answer. Each of the first answers causes this object to send a further
  // probe.
  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
  // Handles the answer to a clock probe.
  void OnReading(const ClockReading& reading) ABSL_LOCKS_EXCLUDED(mu_);
  // Call this method regularly, at most several times a second. During the
  // traced steps, sends another clock probe; after them, sends some of the
  // trace records. `step` is the first step that is not complete in this
  // process.
  void Beat(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends all remaining trace records. Call after the last record has been
  // made.
  void Finish() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Probe() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends one message with trace records. If `last` is true and no record is
  // left, marks it as the last message. Returns false if there was nothing to
  // send.
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
