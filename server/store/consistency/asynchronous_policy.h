// The policy of mode asynchronous.
#ifndef TRIBUTARY_SERVER_STORE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_
#define TRIBUTARY_SERVER_STORE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_

#include <memory>

#include "proto/job.pb.h"
#include "server/store/consistency/consistency_policy.h"

namespace tributary {

// A contribution is a whole batch, and applied in the order of arrival, unless
// the chunk has had the step or more than `max_staleness` versions were made
// since the one that it was computed from. Its sender is told which. With
// `learning_rate_by_staleness` an update is divided by its staleness. A queue
// holds at most 4096 contributions.
class AsynchronousPolicy final : public ConsistencyPolicy {
 public:
  AsynchronousPolicy(const Options& options, const AsynchronousSpec& spec)
      : options_(options), spec_(spec) {}

  std::unique_ptr<ContributionQueue> NewQueue() const override;
  int useful_versions() const override { return 1; }

 private:
  const Options options_;
  const AsynchronousSpec spec_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_
