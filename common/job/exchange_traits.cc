#include "common/job/exchange_traits.h"

namespace tributary {
namespace {

ExchangeKind KindOf(const JobSpec& job) {
  if (job.exchange().has_all_reduce()) return ExchangeKind::kAllReduce;
  const ConsistencySpec& consistency = ConsistencyOf(job);
  switch (consistency.mode_case()) {
    case ConsistencySpec::kStaleSynchronous:
      // With staleness 0 the result must have the same bits as in mode
      // synchronous.
      return consistency.stale_synchronous().staleness() > 0
                 ? ExchangeKind::kBoundedStaleness
                 : ExchangeKind::kSynchronous;
    case ConsistencySpec::kAsynchronous:
      return ExchangeKind::kAsynchronous;
    case ConsistencySpec::kLocalSteps:
      return ExchangeKind::kLocalSteps;
    case ConsistencySpec::kSynchronous:
    case ConsistencySpec::MODE_NOT_SET:
      break;
  }
  return ExchangeKind::kSynchronous;
}

}  // namespace

const ConsistencySpec& ConsistencyOf(const JobSpec& job) {
  return job.exchange().parameter_server().consistency();
}

ExchangeTraits ResolveExchange(const JobSpec& job) {
  ExchangeTraits traits;
  traits.kind = KindOf(job);
  switch (traits.kind) {
    case ExchangeKind::kSynchronous:
      break;
    case ExchangeKind::kBoundedStaleness:
      traits.staleness = ConsistencyOf(job).stale_synchronous().staleness();
      traits.one_version_per_round = false;
      break;
    case ExchangeKind::kAsynchronous:
      traits.whole_batches = true;
      traits.one_version_per_round = false;
      traits.contributions_answered = true;
      break;
    case ExchangeKind::kLocalSteps:
      traits.steps_per_round = ConsistencyOf(job).local_steps().inner_steps();
      traits.local_sgd = true;
      break;
    case ExchangeKind::kAllReduce:
      traits.name = "all_reduce";
      traits.servers_update = false;
      traits.workers_shard_optimizer =
          job.exchange().all_reduce().shard_optimizer();
      traits.workers_exchange_directly = true;
      traits.servers_hold_replicas = true;
      traits.fixed_members = true;
      break;
  }
  if (job.recovery().journal()) traits.servers_hold_replicas = true;
  // Local SGD clips each inner step by itself.
  const bool needs_norm = (job.clip_norm() > 0 && !traits.local_sgd) ||
                          job.on_nonfinite() == JobSpec::SKIP;
  // A worker that computes whole batches knows their norm itself. In all other
  // modes, waiting for the norm also keeps the servers at the same step, which
  // recovery.journal requires.
  traits.contributions_await_norm = traits.whole_batches && needs_norm;
  // The rule of a worker's program updates all chunks at once.
  const bool updates_at_once =
      !traits.servers_update && job.optimizer().has_program();
  traits.updates_await_trust_ratios =
      !traits.whole_batches && !traits.local_sgd && job.optimizer().has_lamb();
  traits.updates_await_norm =
      !traits.whole_batches &&
      (needs_norm || job.recovery().journal() || updates_at_once ||
       traits.updates_await_trust_ratios);
  return traits;
}

}  // namespace tributary
