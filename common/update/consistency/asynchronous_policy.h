// Implements the consistency mode `asynchronous`.
#ifndef TRIBUTARY_COMMON_UPDATE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_
#define TRIBUTARY_COMMON_UPDATE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_

#include <memory>

#include "common/update/consistency/consistency_policy.h"
#include "proto/job.pb.h"

namespace tributary {

// Applies contributions, each of which is the gradient of a whole batch for one
// chunk, in the order of arrival. Drops a contribution if its step has already
// been applied to the chunk. Refuses a contribution if its staleness is above
// `max_staleness`; the staleness is the number of versions by which the chunk
// is ahead of the version that the gradient was computed from. The worker that
// sent the contribution receives the outcome. With
// `learning_rate_by_staleness`, the learning rate of an update is divided by
// the contribution's staleness if that is above 1. A queue holds at most 4096
// contributions.
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

#endif  // TRIBUTARY_COMMON_UPDATE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_
