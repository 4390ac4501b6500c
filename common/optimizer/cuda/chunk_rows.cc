#include "common/optimizer/cuda/chunk_rows.h"

#include <algorithm>

#include "common/parameters/arena_layout.h"

namespace tributary::cuda {
namespace {

RowGroup GroupOf(OptimizerGroup group) {
  switch (group) {
    case DECAY:
      return RowGroup::kDecay;
    case STATISTICS:
      return RowGroup::kStatistics;
    default:
      return RowGroup::kNoDecay;
  }
}

}  // namespace

std::vector<ChunkRow> RowsOf(const ArenaLayout& layout, int chunk) {
  std::vector<ChunkRow> rows(layout.ChunkSize(chunk) / kRowElements);
  for (const ChunkSegment& segment : layout.ChunkSegments(chunk)) {
    for (int64_t begin = segment.begin; begin < segment.end;
         begin += kRowElements) {
      ChunkRow& row = rows[begin / kRowElements];
      row.group = GroupOf(segment.group);
      row.elements = static_cast<uint8_t>(
          std::min<int64_t>(kRowElements, segment.end - begin));
      row.learning_rate_factor = segment.learning_rate_factor;
    }
  }
  return rows;
}

}  // namespace tributary::cuda
