#include "server/run_mode/leased_steps.h"

namespace tributary {

void LeasedSteps::Begin(int64_t version) {
  step_leases_ = StepLeases(/*limit=*/0, version);
}

void LeasedSteps::GrantSteps(int64_t limit) {
  step_leases_.SetLimit(limit);
  for (const auto& [worker, step] : step_leases_.Grant()) {
    CoordinatorOrder order;
    order.mutable_claimed()->set_step(step);
    membership().Find(worker)->link->Send(order);
  }
}

absl::Status LeasedSteps::RequestStep(const Member& worker) {
  if (!worker.synced) return RunMode::RequestStep(worker);
  if (!step_leases_.Request(worker.incarnation)) {
    return absl::ResourceExhaustedError(
        "requests more steps than it can compute");
  }
  return absl::OkStatus();
}

}  // namespace tributary
