// The trace of one server; see OutputSpec.trace.
#ifndef TRIBUTARY_SERVER_TRACE_SERVER_TRACE_H_
#define TRIBUTARY_SERVER_TRACE_SERVER_TRACE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "common/trace/trace_sender.h"
#include "common/update/update_trace.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Records what the server's engine does in the traced steps, and sends the
// records to the coordinator. Thread-safe.
class ServerTrace {
 public:
  // Returns null if the job traces no steps. `report` sends a report to the
  // coordinator; it must not block.
  static std::unique_ptr<ServerTrace> Create(
      const JobSpec& job, int shard,
      const std::function<void(const ServerReport&)>& report);

  // Returns the object with which the engine records what it does. It lives as
  // long as this object.
  UpdateTrace* engine() { return &engine_; }

  // Sends the first clock probe (a request for the coordinator's clock). Call
  // it when OnReading can be called.
  void Begin() { sender_.Begin(); }
  // Handles the coordinator's answer to a clock probe.
  void OnReading(const ClockReading& reading) { sender_.OnReading(reading); }
  // Sends clock probes and trace records; see TraceSender::Beat.
  void Beat(int64_t version) { sender_.Beat(version); }
  // Sends all remaining trace records. Call it after the last step.
  void Finish() { sender_.Finish(); }

 private:
  ServerTrace(const TracedSteps& steps, TraceSender::Send send);

  TraceSender sender_;
  UpdateTrace engine_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_TRACE_SERVER_TRACE_H_
