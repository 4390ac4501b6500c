// One job under every exchange and consistency mode.
#ifndef TRIBUTARY_DEPLOY_COMPARE_EXCHANGE_VARIANTS_H_
#define TRIBUTARY_DEPLOY_COMPARE_EXCHANGE_VARIANTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace tributary {

struct ExchangeVariant {
  std::string name;
  JobSpec job;  // Resolved; but for its exchange the job that was given.
  int servers = 1;
};

// An exchange that the job does not allow, or that makes no difference.
struct LeftOutExchange {
  std::string name;
  std::string reason;
};

struct ExchangeVariants {
  std::vector<ExchangeVariant> variants;
  std::vector<LeftOutExchange> left_out;
};

// All there are: the modes of proto/job.proto's ConsistencySpec, and
// all_reduce; `synchronous_sharded` is synchronous on several servers,
// `all_reduce_sharded` all_reduce with shard_optimizer.
const std::vector<std::string>& ExchangeNames();

// `name` is one of them. Settings of the exchange that is set stay, others get
// the defaults.
void SetExchange(const std::string& name, ExchangeSpec* exchange);

// The job's own settings of a mode stay, the others get the defaults. `names`
// in their order, each once; if there are none, all that the job allows.
// `servers` are those of synchronous_sharded, which needs two or more; the
// others have one. InvalidArgument for an unknown name, for one that is asked
// for but not allowed, and where nothing is left.
absl::StatusOr<ExchangeVariants> MakeExchangeVariants(
    const JobSpec& job, const std::vector<std::string>& names, int servers);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_EXCHANGE_VARIANTS_H_
