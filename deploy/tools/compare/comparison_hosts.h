// Predicts the load of each host if every worker runs on a host of its own:
// with one server on a worker's host (like the primary GPU of PyTorch's
// DataParallel), with one server on a host of its own, with a server on every
// worker's host, and with an all-reduce.
#ifndef TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_HOSTS_H_
#define TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_HOSTS_H_

#include <vector>

#include "deploy/launch/plan/exchange_plan.h"
#include "deploy/tools/compare/comparison.h"

namespace tributary {

// Returns the predicted load of each host of a cluster. Bytes and times are
// taken from `plan`; the memory is taken from the runs named synchronous,
// synchronous_sharded and all_reduce in `comparison`. Of several hosts with
// equal roles, only the host with the most bytes is included. Omits all-reduce
// if `comparison.left_out` lists it.
std::vector<HostFigures> DescribeHosts(const ExchangePlan& plan,
                                       const Comparison& comparison);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_COMPARE_COMPARISON_HOSTS_H_
