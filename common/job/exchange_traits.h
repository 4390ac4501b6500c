// What a job's exchange implies for the rest of the program.
#ifndef TRIBUTARY_COMMON_JOB_EXCHANGE_TRAITS_H_
#define TRIBUTARY_COMMON_JOB_EXCHANGE_TRAITS_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

enum class ExchangeKind {
  kSynchronous,  // Also stale_synchronous with staleness 0.
  kBoundedStaleness,
  kAsynchronous,
  kLocalSteps,
  kAllReduce,
};

// The facts that follow from `exchange` and the few fields that it interacts
// with. Code asks for the fact that it depends on; only what implements one
// kind of exchange asks for `kind`. A plain value.
struct ExchangeTraits {
  ExchangeKind kind = ExchangeKind::kSynchronous;

  // Servers hold the weights and run the optimizer. False: the workers do, and
  // the job has one server, which no gradient passes.
  bool servers_update = true;
  // Servers keep in-memory replicas of the state that other servers
  // (recovery.journal) or the workers (all-reduce) update.
  bool servers_hold_replicas = false;
  // An attempt needs all workers that it began with: losing one ends it, and
  // new ones wait for the next.
  bool fixed_members = false;

  // One worker computes the whole batch of a step. False: the workers share
  // each batch's micro-batches.
  bool whole_batches = false;
  // Steps by which a worker may run ahead of the oldest chunk. 0 where whole
  // batches leave no order of steps.
  int64_t staleness = 0;
  // Steps between two exchanges; see Rounds.
  int64_t steps_per_round = 1;
  // Local SGD: each micro-batch takes the steps of a round by itself, with the
  // job's optimizer; contributions are what its weights moved by.
  bool local_sgd = false;

  // Servers, or the members of an all-reduce, update a chunk only when the norm
  // of the step's whole gradient is known.
  bool updates_await_norm = false;
  // Workers hold a gradient back until they know its norm, which they send
  // along.
  bool contributions_await_norm = false;
  // Servers answer each contribution, and may read its gradient until then.
  // False: until the chunk's next version.
  bool contributions_answered = false;
};

// `job` is valid, resolved or not, or the job of rounds (JobOfRounds), which
// has the same traits but for the clipping that JobOfRounds takes out. A pure
// function.
ExchangeTraits ResolveExchange(const JobSpec& job);

// The mode's own parameters, for the code that implements the mode.
const ConsistencySpec& ConsistencyOf(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_EXCHANGE_TRAITS_H_
