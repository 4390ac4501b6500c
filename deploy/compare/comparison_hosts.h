// What hosts would carry if every worker had one of its own: the way of
// PyTorch's DataParallel, whose primary is also a worker, beside separate
// servers, shards, and an all-reduce.
#ifndef TRIBUTARY_DEPLOY_COMPARE_COMPARISON_HOSTS_H_
#define TRIBUTARY_DEPLOY_COMPARE_COMPARISON_HOSTS_H_

#include <vector>

#include "deploy/compare/comparison.h"
#include "deploy/plan/exchange_plan.h"

namespace tributary {

// Bytes and time are the plan's, memory is what the runs named synchronous,
// synchronous_sharded and all_reduce have taken. Of hosts that have the same to
// do the busiest is taken. Without all-reduce if the job does not allow it.
std::vector<HostFigures> DescribeHosts(const ExchangePlan& plan,
                                       const Comparison& comparison);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMPARE_COMPARISON_HOSTS_H_
