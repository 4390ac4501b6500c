#include "deploy/launch/in_process/in_process_runner_client.h"

#include <utility>

#include "absl/time/clock.h"

namespace tributary {

void InProcessRunnerClient::Poll() {
  SendWaiting();
  const absl::Time asked = absl::Now();
  absl::StatusOr<StatusReply> status =
      network_->FindServer(InProcessNetwork::kCoordinator)->GetStatus();
  if (!status.ok()) return;
  latest_ = *std::move(status);
  latest_asked_ = asked;
}

void InProcessRunnerClient::Report(JobEvent event) {
  if (waiting_.size() < kMaxWaiting) waiting_.push_back(std::move(event));
  SendWaiting();
}

void InProcessRunnerClient::SendWaiting() {
  const auto port = network_->FindServer(InProcessNetwork::kCoordinator);
  while (!waiting_.empty()) {
    EventReport report;
    *report.mutable_event() = waiting_.front();
    // Between two attempts there is no coordinator.
    if (absl::IsUnavailable(port->Report(report))) return;
    waiting_.pop_front();
  }
}

}  // namespace tributary
