#include "server/run_mode/run_mode.h"

#include <utility>

#include "common/job/exchange_traits.h"
#include "server/run_mode/all_reduce_steps.h"
#include "server/run_mode/leased_steps.h"
#include "server/run_mode/pipeline_steps.h"

namespace tributary {

std::unique_ptr<RunMode> CreateRunMode(const JobSpec& job,
                                       Membership* membership,
                                       ServerRoster* servers) {
  const ExchangeTraits traits = ResolveExchange(job);
  std::unique_ptr<PipelineSteps> stages;
  if (job.parallel().has_pipeline()) {
    stages = std::make_unique<PipelineSteps>(
        job, job.parallel().pipeline().stages(), membership, servers);
  }
  if (!traits.servers_update) {
    return std::make_unique<AllReduceSteps>(job, membership, servers,
                                            std::move(stages));
  }
  if (stages != nullptr) return stages;
  if (traits.whole_batches) {
    return std::make_unique<LeasedSteps>(job, membership, servers);
  }
  // Workers and servers decide without the coordinator how far a worker may run
  // ahead (see WorkState and ConsistencyPolicy).
  return std::make_unique<RunMode>(job, membership, servers);
}

std::map<int64_t, std::vector<CoordinatorOrder>> RunMode::Assign(
    int64_t pieces, absl::Time now) {
  return OrdersFor(membership_.AssignWork(pieces, now));
}

const Member* RunMode::Awaited(int64_t step) const {
  for (const ServerRoster::Server& server : servers_.servers()) {
    if (!server.missing.has_value() || server.missing->step() != step) continue;
    const Member* const worker = membership_.WorkerOf(server.missing->leaf());
    if (worker != nullptr) return worker;
  }
  return nullptr;
}

bool RunMode::workers_load_state() const {
  return !ResolveExchange(job_).servers_update;
}

bool RunMode::AssignmentIsSlow(absl::Time now) const {
  return !ResolveExchange(job_).fixed_members &&
         membership_.AssignmentIsSlow(now);
}

// The members of an all-reduce know the norm themselves.
bool ServersAwaitNorms(const JobSpec& job) {
  const ExchangeTraits traits = ResolveExchange(job);
  return traits.servers_update && traits.updates_await_norm;
}

absl::Status RunMode::RequestStep(const Member&) {
  return absl::FailedPreconditionError(
      "a request for a step before Synced, or outside of asynchronous mode");
}

absl::Status RunMode::CheckReportsSums(int64_t) const {
  return absl::FailedPreconditionError(
      "step sums from a worker that is not the first of an all-reduce");
}

absl::Status RunMode::Publish(int64_t, const Publication&) {
  return absl::FailedPreconditionError(
      "a publication from a worker that is in no all-reduce");
}

void RunMode::OrderSnapshot(const ServerOrder& order, bool) {
  servers_.Send(order);
}

std::map<int64_t, std::vector<CoordinatorOrder>> OrdersFor(
    const std::map<int64_t, Deal>& assignments) {
  std::map<int64_t, std::vector<CoordinatorOrder>> orders;
  for (const auto& [worker, assignment] : assignments) {
    CoordinatorOrder order;
    *order.mutable_deal() = assignment;
    orders[worker].push_back(order);
  }
  return orders;
}

}  // namespace tributary
