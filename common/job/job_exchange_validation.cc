#include "common/job/job_exchange_validation.h"

#include <cstdint>
#include <string>

#include "common/base/field_checks.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/job/job_checks.h"

namespace tributary {
namespace {

// Largest staleness that a job may set. Every step in flight holds a gradient
// of every micro-batch in memory.
constexpr int64_t kMaxStaleness = 64;
constexpr int64_t kMinChunkBytes = 4096;
constexpr int64_t kChunkMultiple = 64;
// A compressed element takes eight bytes instead of four.
constexpr double kMaxTopKFraction = 0.5;

absl::Status ValidateCompression(const ExchangeSpec& exchange) {
  const std::string path = "exchange.compression";
  const CompressionSpec& compression = exchange.compression();
  if (compression.method_case() == CompressionSpec::METHOD_NOT_SET) {
    return Error(path, "set top_k or eight_bit, or leave it out for none");
  }
  if (exchange.wire_dtype() != ExchangeSpec::FLOAT32) {
    return Error(path,
                 "needs exchange.wire_dtype FLOAT32; leave one of the "
                 "two out");
  }
  if (exchange.transport() == ExchangeSpec::MEMORY) {
    return Error(path,
                 "there is nothing to compress with exchange.transport "
                 "MEMORY; leave one of the two out");
  }
  const double fraction = compression.top_k().fraction();
  if (fraction > 0 && fraction <= kMaxTopKFraction) return absl::OkStatus();
  return Error(path + ".top_k.fraction", fraction,
               " is not above 0 and at most ", kMaxTopKFraction);
}

absl::Status ValidateLocalSteps(const LocalStepsSpec& local) {
  const std::string path = "exchange.parameter_server.consistency.local_steps";
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path + ".inner_steps", local.inner_steps(), 1, kMaxSteps));
  const OuterOptimizerSpec& outer = local.outer_optimizer();
  TRIBUTARY_RETURN_IF_ERROR(
      Positive(path + ".outer_optimizer.learning_rate", outer.learning_rate()));
  TRIBUTARY_RETURN_IF_ERROR(
      BelowOne(path + ".outer_optimizer.momentum", outer.momentum()));
  if (outer.nesterov() && outer.momentum() == 0) {
    return Error(path + ".outer_optimizer.nesterov",
                 "needs a momentum above 0; set it to false");
  }
  return absl::OkStatus();
}

absl::Status ValidateConsistency(const ExchangeSpec& exchange) {
  const std::string path = "exchange.parameter_server.consistency";
  const ConsistencySpec& consistency =
      exchange.parameter_server().consistency();
  switch (consistency.mode_case()) {
    case ConsistencySpec::kStaleSynchronous:
      TRIBUTARY_RETURN_IF_ERROR(Between(
          path + ".stale_synchronous.staleness",
          consistency.stale_synchronous().staleness(), 0, kMaxStaleness));
      TRIBUTARY_RETURN_IF_ERROR(
          NotNegative(path + ".stale_synchronous.patience",
                      consistency.stale_synchronous().patience()));
      break;
    case ConsistencySpec::kAsynchronous:
      TRIBUTARY_RETURN_IF_ERROR(
          Between(path + ".asynchronous.max_staleness",
                  consistency.asynchronous().max_staleness(), 0, kMaxSteps));
      break;
    case ConsistencySpec::kLocalSteps:
      return ValidateLocalSteps(consistency.local_steps());
    case ConsistencySpec::kSynchronous:
    case ConsistencySpec::MODE_NOT_SET:
      return absl::OkStatus();
  }
  // An element that is left out of one version is sent with a later one, which
  // a worker of another consistency mode may never receive.
  if (exchange.has_compression()) {
    return Error("exchange.compression",
                 "works with synchronous and local_steps consistency only; "
                 "leave one of the two out");
  }
  return absl::OkStatus();
}

// Checks a job with an all-reduce. The fields of an exchange with servers do
// not apply, because gradients pass between workers.
absl::Status ValidateAllReduce(const ExchangeSpec& exchange) {
  const std::string why = "is for exchange.parameter_server; leave it out";
  if (exchange.wire_dtype() != ExchangeSpec::FLOAT32) {
    return Error("exchange.wire_dtype", why);
  }
  if (exchange.has_compression()) return Error("exchange.compression", why);
  if (exchange.transport() == ExchangeSpec::MEMORY ||
      exchange.transport() == ExchangeSpec::UNIX_SOCKET) {
    return Error("exchange.transport", why);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateExchange(const ExchangeSpec& exchange) {
  if (exchange.has_compression()) {
    TRIBUTARY_RETURN_IF_ERROR(ValidateCompression(exchange));
  }
  const std::string path = exchange.has_all_reduce()
                               ? "exchange.all_reduce.chunk_bytes"
                               : "exchange.parameter_server.chunk_bytes";
  const int64_t bytes = ChunkBytes(exchange);
  TRIBUTARY_RETURN_IF_ERROR(
      Between(path, bytes, kMinChunkBytes, kMaxChunkBytes));
  if (bytes % kChunkMultiple != 0) {
    return Error(path, bytes, " is not a multiple of ", kChunkMultiple);
  }
  return exchange.has_all_reduce() ? ValidateAllReduce(exchange)
                                   : ValidateConsistency(exchange);
}

absl::Status ValidateProgramRule(const JobSpec& job) {
  const std::string path = "optimizer.program";
  const AllReduceSpec& all_reduce = job.exchange().all_reduce();
  if (!job.model().has_external()) {
    return Error(path,
                 "needs model.external, because the rule is that of the "
                 "workers' program; use another optimizer");
  }
  if (!job.exchange().has_all_reduce()) {
    return Error(path,
                 "needs exchange.all_reduce, because workers apply the rule; "
                 "set exchange { all_reduce {} }");
  }
  if (all_reduce.shard_optimizer()) {
    return Error("exchange.all_reduce.shard_optimizer",
                 "does not work with optimizer.program, whose rule needs all "
                 "parameters; leave it out");
  }
  if (all_reduce.backend() == AllReduceSpec::NCCL) {
    return Error("exchange.all_reduce.backend",
                 "is NCCL, but the rule of optimizer.program works in host "
                 "memory; use GLOO");
  }
  if (job.has_schedule()) {
    return Error("schedule",
                 "does not work with optimizer.program, which has its own "
                 "learning rate; leave it out");
  }
  const OptimizerSpec& optimizer = job.optimizer();
  if (optimizer.average_decay() != 0) {
    return Error("optimizer.average_decay",
                 "does not work with optimizer.program; leave it out");
  }
  if (optimizer.group_size() > 0) {
    return Error("optimizer.group",
                 "does not work with optimizer.program, whose rule has the "
                 "groups of the program; leave it out");
  }
  return absl::OkStatus();
}

absl::Status ValidateLamb(const JobSpec& job) {
  const std::string path = "optimizer.lamb";
  const ExchangeTraits traits = ResolveExchange(job);
  if (traits.whole_batches || traits.local_sgd) {
    return Error(path, "does not work with consistency mode ",
                 traits.local_sgd ? "local_steps" : "asynchronous",
                 ", in which parts of a parameter are updated without waiting "
                 "for the others; use synchronous, or another optimizer");
  }
  if (job.clip_norm() > 0) {
    return Error("clip_norm",
                 "does not work with optimizer.lamb, whose trust ratios are "
                 "computed before the norm of the gradient is known, and limit "
                 "each step themselves; leave it out");
  }
  return absl::OkStatus();
}

absl::Status ValidateRecovery(const JobSpec& job) {
  if (job.recovery().journal() && job.exchange().has_all_reduce()) {
    return Error("recovery.journal",
                 "is for exchange.parameter_server; leave it out: with "
                 "all_reduce every worker has the whole state");
  }
  const ConsistencySpec& consistency =
      job.exchange().parameter_server().consistency();
  if (job.recovery().journal() &&
      (consistency.has_asynchronous() || consistency.has_stale_synchronous())) {
    return Error("recovery.journal",
                 "needs consistency mode synchronous or local_steps, where all "
                 "servers are at the same step");
  }
  return absl::OkStatus();
}

}  // namespace tributary
