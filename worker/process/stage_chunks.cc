#include "worker/process/stage_chunks.h"

#include <vector>

#include "common/parameters/chunk_ranges.h"

namespace tributary {

WorkerChunks StageChunks(const StageSplit& split, int begin, int end) {
  std::vector<ChunkRange> read;
  for (int stage = begin; stage < end; ++stage) {
    for (const StageSplit::Range& range : split.stages[stage].read_chunks) {
      ChunkRange& chunks = read.emplace_back();
      chunks.set_begin(static_cast<int>(range.begin));
      chunks.set_end(static_cast<int>(range.end));
    }
  }
  WorkerChunks chunks;
  chunks.read = ChunkRanges::Union(read);
  chunks.begin = static_cast<int>(split.stages[begin].chunks.begin);
  chunks.end = static_cast<int>(split.stages[end - 1].chunks.end);
  return chunks;
}

}  // namespace tributary
