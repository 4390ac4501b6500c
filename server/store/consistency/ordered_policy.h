// The policy of modes that apply steps in order: synchronous, local SGD and
// bounded staleness.
#ifndef TRIBUTARY_SERVER_STORE_CONSISTENCY_ORDERED_POLICY_H_
#define TRIBUTARY_SERVER_STORE_CONSISTENCY_ORDERED_POLICY_H_

#include <cstdint>
#include <memory>

#include "server/store/consistency/consistency_policy.h"

namespace tributary {

// Steps are applied in order, each when its tree is complete. A step's
// contributions may come while the chunk is up to `staleness` versions behind
// it: with 0 the synchronous rule, otherwise stale synchronous parallel (Ho et
// al., "More effective distributed ML via a stale synchronous parallel
// parameter server", 2013). A queue holds at most `staleness` + 1 trees.
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

#endif  // TRIBUTARY_SERVER_STORE_CONSISTENCY_ORDERED_POLICY_H_
