// Implements the consistency modes that apply steps in order: synchronous,
// local SGD and bounded staleness.
#ifndef TRIBUTARY_COMMON_UPDATE_CONSISTENCY_ORDERED_POLICY_H_
#define TRIBUTARY_COMMON_UPDATE_CONSISTENCY_ORDERED_POLICY_H_

#include <cstdint>
#include <memory>

#include "common/update/consistency/consistency_policy.h"

namespace tributary {

// Applies steps in order. Applies each step when its contributions (gradient
// sums that workers send) cover all micro-batches of the step, which are the
// leaves of the reduction tree. Accepts contributions to a step while the chunk
// is at most `staleness` versions behind that step. A staleness of 0 is
// synchronous training; otherwise this is stale synchronous parallel (Ho et
// al., "More effective distributed ML via a stale synchronous parallel
// parameter server", 2013). A queue holds the contributions of at most
// `staleness` + 1 steps.
class OrderedPolicy final : public ConsistencyPolicy {
 public:
  OrderedPolicy(const Options& options, int64_t staleness)
      : options_(options), staleness_(staleness) {}

  std::unique_ptr<ContributionQueue> NewQueue() const override;
  int useful_versions() const override { return staleness_ > 0 ? 1 : 2; }

 private:
  const Options options_;
  const int64_t staleness_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CONSISTENCY_ORDERED_POLICY_H_
