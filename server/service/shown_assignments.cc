#include "server/service/shown_assignments.h"

#include <algorithm>
#include <limits>
#include <utility>

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
  const bool all_chunks = assigned.chunk_end() == 0;
  Shown shown;
  shown.begin = assigned.leaf_begin();
  shown.end = assigned.leaf_end();
  shown.chunk_begin = assigned.chunk_begin();
  shown.chunk_end =
      all_chunks ? std::numeric_limits<int>::max() : assigned.chunk_end();
  shown.last_step = std::numeric_limits<int64_t>::max();
  shown.text = absl::StrCat("[", shown.begin, ", ", shown.end, ")");
  if (!all_chunks) {
    absl::StrAppend(&shown.text, " of chunks [", shown.chunk_begin, ", ",
                    shown.chunk_end, ")");
  }
  shown_.push_back(std::move(shown));
}

int ShownAssignments::EndFrom(int64_t step, int leaf, int chunk) const {
  int end = leaf;
  for (const Shown& shown : shown_) {
    if (step <= shown.last_step && shown.begin <= leaf && leaf < shown.end &&
        shown.chunk_begin <= chunk && chunk < shown.chunk_end) {
      end = std::max(end, shown.end);
    }
  }
  return end;
}

absl::Status ShownAssignments::Check(int64_t step, int node, int leaves,
                                     int chunk) const {
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
    const int next = EndFrom(step, leaf, chunk);
    if (next == leaf) {
      return absl::InvalidArgumentError(absl::StrCat(
          "contribution of step ", step, ", node ", node, ", chunk ", chunk,
          " has micro-batch ", leaf,
          shown_.empty()
              ? ", before the worker has sent Assigned"
              : absl::StrCat(", which is not in the worker's assignment, ",
                             shown_.back().text)));
    }
    leaf = next;
  }
  return absl::OkStatus();
}

}  // namespace tributary
