#include "server/trace/server_trace.h"

#include <optional>
#include <utility>

#include "common/job/exchange_traits.h"
#include "common/trace/trace_recorder.h"

namespace tributary {

std::unique_ptr<ServerTrace> ServerTrace::Create(
    const JobSpec& job, int shard,
    const std::function<void(const ServerReport&)>& report) {
  const std::optional<TracedSteps> steps =
      TracedStepsOf(job, ResolveExchange(job).steps_per_round);
  if (!steps.has_value()) return nullptr;
  TraceSender::Send send;
  // The clock of server 0 is the coordinator's.
  if (shard != 0) {
    send.probe = [report](const ClockProbe& probe) {
      ServerReport message;
      *message.mutable_clock_probe() = probe;
      report(message);
    };
  }
  send.records = [report](const TraceRecords& records) {
    ServerReport message;
    *message.mutable_trace() = records;
    report(message);
  };
  return std::unique_ptr<ServerTrace>(new ServerTrace(*steps, std::move(send)));
}

ServerTrace::ServerTrace(const TracedSteps& steps, TraceSender::Send send)
    : sender_(steps, std::move(send)), engine_(sender_.recorder()) {}

}  // namespace tributary
