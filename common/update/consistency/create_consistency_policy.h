// Creates the implementation of a job's consistency mode.
#ifndef TRIBUTARY_COMMON_UPDATE_CONSISTENCY_CREATE_CONSISTENCY_POLICY_H_
#define TRIBUTARY_COMMON_UPDATE_CONSISTENCY_CREATE_CONSISTENCY_POLICY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/update/consistency/consistency_policy.h"
#include "proto/job.pb.h"

namespace tributary {

// Creates the policy for the job's consistency mode. `job` must be a result of
// ResolveJob or JobOfRounds. `steps` and `first_step` count rounds (a round is
// what servers count as one step); see ConsistencyPolicy::Options. Returns
// InvalidArgument for an all-reduce, which has no consistency mode.
absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> CreateConsistencyPolicy(
    const JobSpec& job, int64_t steps, int64_t first_step);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CONSISTENCY_CREATE_CONSISTENCY_POLICY_H_
