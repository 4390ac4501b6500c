// Derives the variants of a job for every exchange and consistency mode.
#ifndef TRIBUTARY_DEPLOY_COMPARE_EXCHANGE_VARIANTS_H_
#define TRIBUTARY_DEPLOY_COMPARE_EXCHANGE_VARIANTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace tributary {

struct ExchangeVariant {
  std::string name;
  // The resolved job, which differs from the given one in its exchange only.
  JobSpec job;
  int servers = 1;
};

// An exchange that the job does not allow, or that would equal another variant.
struct LeftOutExchange {
  std::string name;
  std::string reason;
};

struct ExchangeVariants {
  std::vector<ExchangeVariant> variants;
  std::vector<LeftOutExchange> left_out;
};

// Returns the names of all exchanges: the modes of ConsistencySpec in
// proto/job.proto, all_reduce, and two variants. `synchronous_sharded` is
// synchronous with several servers, `all_reduce_sharded` is all_reduce with
// shard_optimizer.
const std::vector<std::string>& ExchangeNames();

// Sets the exchange to `name`, one of ExchangeNames. If `*exchange` is of this
// kind already, keeps its settings. Otherwise keeps only chunk_bytes, and other
// settings get their defaults.
void SetExchange(const std::string& name, ExchangeSpec* exchange);

// Returns the variants in the order of `names`, each once, or all that the job
// allows if `names` is empty. The variant with the job's own mode keeps the
// job's settings; other variants have the defaults of their modes.
// synchronous_sharded uses `servers`, at least two; the others use one. Returns
// InvalidArgument for an unknown name, for a requested name that the job does
// not allow, and if no variant is left.
absl::StatusOr<ExchangeVariants> MakeExchangeVariants(
    const JobSpec& job, const std::vector<std::string>& names, int servers);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_EXCHANGE_VARIANTS_H_
