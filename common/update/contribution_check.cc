#include "common/update/contribution_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parameters/reduction_tree.h"
#include "common/text/counted.h"

namespace tributary {

ContributionCheck::ContributionCheck(
    const ArenaLayout& layout, int leaves, int64_t steps,
    const std::optional<SampleCounts>& sample_counts)
    : leaves_(leaves),
      steps_(steps),
      sample_counts_(sample_counts),
      gaps_(layout.chunk_count()) {
  for (const Parameter& parameter : layout.parameters()) {
    int64_t begin = parameter.offset + parameter.size;
    const int64_t next = (begin + parameter.padding + kArenaAlignment - 1) /
                         kArenaAlignment * kArenaAlignment;
    // The padding may extend over several chunks.
    while (begin < next) {
      const int chunk = static_cast<int>(begin / layout.chunk_elements());
      const int64_t start = layout.ChunkBegin(chunk);
      const int64_t end = std::min(next, start + layout.ChunkSize(chunk));
      gaps_[chunk].push_back({begin - start, end - start, parameter.name});
      begin = end;
    }
  }
}

absl::Status ContributionCheck::Check(int chunk, const NodeSum& sum) const {
  TRIBUTARY_RETURN_IF_ERROR(CheckStep(absl::StrCat("chunk ", chunk), sum));
  for (const Gap& gap : gaps_[chunk]) {
    TRIBUTARY_RETURN_IF_ERROR(CheckGap(chunk, gap, sum));
  }
  return absl::OkStatus();
}

absl::Status ContributionCheck::CheckStep(absl::string_view what,
                                          const NodeSum& sum) const {
  if (!IsNode(sum.node, leaves_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", sum.node, " is not in the tree of ",
                     Counted(leaves_, "micro-batch", "micro-batches"),
                     " (batch.micro_batches)"));
  }
  if (sum.step < 0) {
    return absl::InvalidArgumentError(absl::StrCat("contribution to step ",
                                                   sum.step, " of ", what,
                                                   ": steps count from 0"));
  }
  const int64_t samples = sum.sample_count;
  if (samples < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("contribution of step ", sum.step, ", ", what,
                     " has negative sample count (weight) ", samples));
  }
  if (sample_counts_.has_value() && sum.step < steps_) {
    if (!sample_counts_->Allows(sum.step, sum.node, samples)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "contribution of step ", sum.step, ", ", what, ", node ", sum.node,
          " has sample count (weight) ", samples, ", expected ",
          sample_counts_->exact() ? "" : "from 0 to ",
          sample_counts_->Of(sum.step, sum.node),
          ": the number of samples (tokens) that the node has in this step",
          sample_counts_->exact() ? ""
                                  : ", times data.external.units_per_sample"));
    }
  }
  return absl::OkStatus();
}

absl::Status ContributionCheck::CheckGap(int chunk, const Gap& gap,
                                         const NodeSum& sum) const {
  float scratch[TreeSum::kBlock];
  for (int64_t begin = gap.begin; begin < gap.end; begin += TreeSum::kBlock) {
    const int64_t count = std::min(TreeSum::kBlock, gap.end - begin);
    const float* const values = sum.gradient->Read(begin, count, scratch);
    // A block of EIGHT_BIT whose scale is NaN turns zeros into NaN.
    const float* const wrong = std::find_if(
        values, values + count,
        [](float value) { return value != 0 && !std::isnan(value); });
    if (wrong == values + count) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "contribution of step ", sum.step, ", chunk ", chunk, " has ", *wrong,
        " at element ", begin + (wrong - values),
        ", in the gap after parameter ", gap.parameter, ", expected 0"));
  }
  return absl::OkStatus();
}

}  // namespace tributary
