// Implements the consistency mode `asynchronous`.
#ifndef TRIBUTARY_SERVER_STORE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_
#define TRIBUTARY_SERVER_STORE_CONSISTENCY_ASYNCHRONOUS_POLICY_H_

#include <memory>

#include "proto/job.pb.h"
#include "server/store/consistency/consistency_policy.h"

namespace tributary {

// Applies contributions, each of a whole batch, in the order of arrival. Drops
// a contribution if the chunk has already applied the step, and refuses it if
// its staleness (the number of versions since the one it was computed from) is
// above `max_staleness`. The sender receives the outcome. With
// `learning_rate_by_staleness`, the learning rate of an update is divided by
// its staleness if that is above 1. A queue holds at most 4096 contributions.
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
