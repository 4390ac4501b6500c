// The properties of a job's exchange that the rest of the program depends on.
#ifndef TRIBUTARY_COMMON_JOB_EXCHANGE_TRAITS_H_
#define TRIBUTARY_COMMON_JOB_EXCHANGE_TRAITS_H_

#include <cstdint>

#include "proto/job.pb.h"

namespace tributary {

enum class ExchangeKind {
  kSynchronous,  // Includes stale_synchronous with staleness 0.
  kBoundedStaleness,
  kAsynchronous,
  kLocalSteps,
  kAllReduce,
};

// Properties that follow from the field `exchange` and a few related fields of
// the job. Code should check the property that it depends on; only the
// implementation of one kind of exchange should check `kind`. A value type.
struct ExchangeTraits {
  ExchangeKind kind = ExchangeKind::kSynchronous;
  // Name of the exchange in the output of a run: the field of ExchangeSpec that
  // selects it.
  const char* name = "parameter_server";

  // True if servers hold the weights and run the optimizer. Otherwise the
  // workers do both, and the job has one server, which receives no gradients.
  bool servers_update = true;
  // True if each worker runs the optimizer on its part of the chunks only, and
  // keeps only that part of the optimizer's state. False if every worker runs
  // it on all chunks, or if servers run it.
  bool workers_shard_optimizer = false;
  // True if workers exchange gradients with each other, over TCP or NCCL.
  // Otherwise they exchange them with servers, over exchange.transport.
  bool workers_exchange_directly = false;
  // True if servers keep in-memory replicas: with recovery.journal, of the
  // state of other servers; with all-reduce, of the state of the workers.
  bool servers_hold_replicas = false;
  // True if the set of workers is fixed during an attempt, which is one run of
  // the protocol: the loss of one worker ends the attempt, and workers that
  // join wait for the next attempt.
  bool fixed_members = false;

  // True if each step is assigned to one worker, which computes the whole
  // batch. Otherwise the batch's micro-batches are divided among the workers.
  bool whole_batches = false;
  // A worker may compute a step with weights that lack the updates of at most
  // this many preceding steps. 0 if whole_batches is true, because steps are
  // then not applied in order.
  int64_t staleness = 0;
  // True if all contributions (gradient sums from workers) to a round are
  // computed from one version of the weights, which has exactly the updates of
  // all earlier rounds. The result then does not depend on timing (except with
  // exchange.compression).
  bool one_version_per_round = true;
  // Number of the job's steps per round. In each round, the processes exchange
  // gradients once, or with local SGD the changes of weights. Above 1 only for
  // local SGD; see Rounds.
  int64_t steps_per_round = 1;
  // True for local SGD: for each micro-batch, a worker takes several steps (the
  // steps of one round, see Rounds) on a separate copy of the weights, with the
  // job's optimizer. It contributes the change of these weights instead of a
  // gradient.
  bool local_sgd = false;

  // True if servers, or the members of an all-reduce, update chunks only after
  // the norm of the step's whole gradient is known.
  bool updates_await_norm = false;
  // True if servers, or the members of an all-reduce, update chunks only after
  // the trust ratios of the step are known (see TrustRatios).
  // updates_await_norm is then true, too.
  bool updates_await_trust_ratios = false;
  // True if workers compute the norm of the whole gradient before they send it,
  // and send the norm with it.
  bool contributions_await_norm = false;
  // True if servers answer each contribution. If the gradients of a
  // contribution are in memory that the server shares with the worker, the
  // server may read them until it has answered the contribution or, if this
  // field is false, until it has published the next version of the chunk.
  bool contributions_answered = false;
};

// Returns the traits of `job`, which must be valid. ResolveJob(job) and
// JobOfRounds(job) have the same traits as `job`. A pure function.
ExchangeTraits ResolveExchange(const JobSpec& job);

// Returns the parameters of the job's consistency mode, for the code that
// implements the mode. The reference is valid as long as `job` exists and is
// not modified.
const ConsistencySpec& ConsistencyOf(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_JOB_EXCHANGE_TRAITS_H_
