// Refuses contributions (gradient sums that workers send) that no correct
// worker sends.
#ifndef TRIBUTARY_COMMON_UPDATE_CONTRIBUTION_CHECK_H_
#define TRIBUTARY_COMMON_UPDATE_CONTRIBUTION_CHECK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/parameters/arena_layout.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/sample_counts.h"

namespace tributary {

// Checks those parts of a contribution that can be checked with the job alone:
// the step, the node of the reduction tree, and the sample count. Also checks
// that the gaps after parameters are zero (or NaN), because the norm of the
// gradient includes the gaps. Immutable and thread-safe.
class ContributionCheck {
 public:
  // The job has `steps` rounds, which servers count as steps, and its
  // reduction tree has `leaves` leaves. Without `sample_counts`, any sample
  // count that is not negative is accepted.
  ContributionCheck(const ArenaLayout& layout, int leaves, int64_t steps,
                    const std::optional<SampleCounts>& sample_counts);

  // Returns InvalidArgument, with the value and the expected value, if the
  // contribution `sum` to `chunk` is invalid. `chunk` must be a chunk of the
  // layout. Reads no elements of the gradient except the gaps between
  // parameters.
  absl::Status Check(int chunk, const NodeSum& sum) const;
  // Checks the step, the node and the sample count only. `what` names what the
  // contribution is for, in errors.
  absl::Status CheckStep(absl::string_view what, const NodeSum& sum) const;

 private:
  // Elements of a chunk that follow the end of `parameter` and belong to no
  // parameter.
  struct Gap {
    int64_t begin = 0;
    int64_t end = 0;
    std::string parameter;
  };
  absl::Status CheckGap(int chunk, const Gap& gap, const NodeSum& sum) const;

  const int leaves_;
  const int64_t steps_;
  const std::optional<SampleCounts> sample_counts_;
  std::vector<std::vector<Gap>> gaps_;  // The gaps of each chunk.
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CONTRIBUTION_CHECK_H_
