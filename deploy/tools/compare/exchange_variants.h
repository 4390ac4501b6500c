// Derives, from one job, the same job with every other exchange and consistency
// mode.
#ifndef TRIBUTARY_DEPLOY_TOOLS_COMPARE_EXCHANGE_VARIANTS_H_
#define TRIBUTARY_DEPLOY_TOOLS_COMPARE_EXCHANGE_VARIANTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace tributary {

struct ExchangeVariant {
  std::string name;
  // The job of this variant, as ResolveJob returns it. It differs from the
  // original job only in its fields `exchange` and parallel.pipeline, which
  // only the variant `pipeline` has.
  JobSpec job;
  int servers = 1;
  // True if all servers and workers are threads of one process.
  bool in_process = false;
};

// An exchange (one of ExchangeNames) that is not compared, because the job does
// not allow it or because it needs more servers.
struct LeftOutExchange {
  std::string name;
  std::string reason;
};

struct ExchangeVariants {
  std::vector<ExchangeVariant> variants;
  std::vector<LeftOutExchange> left_out;
};

// Returns the names of all ways to exchange gradients: the modes of
// ConsistencySpec in proto/job.proto, all_reduce, synchronous_sharded
// (synchronous with several servers), all_reduce_sharded (all_reduce with
// shard_optimizer), data_parallel (synchronous in one process, as PyTorch's
// DataParallel) and pipeline (synchronous with parallel.pipeline).
const std::vector<std::string>& ExchangeNames();

// Selects the exchange `name`, one of ExchangeNames, in `*exchange`. Keeps the
// settings of this exchange if it is already selected, and otherwise selects it
// with default settings. Always keeps chunk_bytes and the fields that all
// exchanges share, such as transport and wire_dtype.
void SetExchange(const std::string& name, ExchangeSpec* exchange);

// Returns one variant of `job` for each exchange in `names`, in this order. If
// `names` is empty, returns one for each exchange that the job allows, and
// `pipeline` only if the job has parallel.pipeline. The variant with the job's
// own mode keeps the job's settings; other variants have the defaults of their
// modes, and a pipeline has a stage for each of `workers` workers.
// synchronous_sharded has `servers` servers, at least two; every other variant
// has one server. Returns InvalidArgument for an unknown name, for a name that
// is listed twice, for a requested exchange that is not possible, and if no
// exchange is possible.
absl::StatusOr<ExchangeVariants> MakeExchangeVariants(
    const JobSpec& job, const std::vector<std::string>& names, int servers,
    int workers);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_COMPARE_EXCHANGE_VARIANTS_H_
