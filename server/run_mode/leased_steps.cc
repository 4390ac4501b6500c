#include "server/run_mode/leased_steps.h"

namespace tributary {

void LeasedSteps::Begin(int64_t version, const Ready& /*ready*/) {
  step_leases_ = StepLeases(/*limit=*/0, version);
}

std::map<int64_t, std::vector<CoordinatorOrder>> LeasedSteps::Assign(
    int64_t pieces, absl::Time now) {
  auto orders = RunMode::Assign(pieces, now);
  for (auto& [incarnation, list] : orders) {
    for (CoordinatorOrder& order : list) {
      order.mutable_deal()->clear_leaf_begin();
      order.mutable_deal()->clear_leaf_end();
    }
  }
  return orders;
}

void LeasedSteps::GrantSteps(int64_t limit) {
  step_leases_.SetLimit(limit);
  for (const auto& [worker, step] : step_leases_.Grant()) {
    CoordinatorOrder order;
    order.mutable_claimed()->set_step(step);
    membership().Find(worker)->link->Send(order);
  }
}

const Member* LeasedSteps::Awaited(int64_t) const {
  return membership().Find(step_leases_.OldestHolder());
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
