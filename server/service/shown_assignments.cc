#include "server/service/shown_assignments.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

// More reassignments than that during the open steps would each need another
// worker that joins or leaves.
constexpr size_t kMostShown = 1024;

}  // namespace

void ShownAssignments::Add(const Assigned& assigned, int64_t newest_step) {
  if (assigned.generation() <= generation_) return;
  generation_ = assigned.generation();
  for (Shown& earlier : shown_) {
    earlier.last_step = std::min(earlier.last_step, newest_step);
  }
  if (shown_.size() >= kMostShown) shown_.pop_front();
  shown_.push_back({assigned.leaf_begin(), assigned.leaf_end(),
                    std::numeric_limits<int64_t>::max()});
}

int ShownAssignments::EndFrom(int64_t step, int leaf) const {
  int end = leaf;
  for (const Shown& shown : shown_) {
    if (step <= shown.last_step && shown.begin <= leaf && leaf < shown.end) {
      end = std::max(end, shown.end);
    }
  }
  return end;
}

absl::Status ShownAssignments::Check(int64_t step, int node, int leaves) const {
  if (node < 1 || node >= 2 * leaves) return absl::OkStatus();
  int begin = node;
  int end = node + 1;
  while (begin < leaves) {
    begin *= 2;
    end *= 2;
  }
  begin -= leaves;
  end -= leaves;
  for (int leaf = begin; leaf < end;) {
    const int next = EndFrom(step, leaf);
    if (next == leaf) {
      return absl::InvalidArgumentError(absl::StrCat(
          "contribution of step ", step, ", node ", node, " has micro-batch ",
          leaf,
          shown_.empty()
              ? ", before the worker has sent Assigned"
              : absl::StrCat(", which is not in the worker's assignment, [",
                             shown_.back().begin, ", ", shown_.back().end,
                             ")")));
    }
    leaf = next;
  }
  return absl::OkStatus();
}

}  // namespace tributary
