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
  if (waiting_.size() < kMaxWaiting) {
    // No other process reports events to this coordinator.
    waiting_.emplace_back();
    waiting_.back().set_id(next_id_++);
    *waiting_.back().mutable_event() = std::move(event);
  }
  SendWaiting();
}

void InProcessRunnerClient::SendWaiting() {
  const auto port = network_->FindServer(InProcessNetwork::kCoordinator);
  while (!waiting_.empty()) {
    // Between two attempts there is no coordinator.
    if (absl::IsUnavailable(port->Report(waiting_.front()))) return;
    waiting_.pop_front();
  }
}

}  // namespace tributary
