#include "common/update/chunk_group.h"

#include <algorithm>

namespace tributary {

ChunkUpdater* ChunkGroup::Find(int number) const {
  const auto place =
      std::lower_bound(chunks_.begin(), chunks_.end(), number,
                       [](const std::unique_ptr<ChunkUpdater>& chunk,
                          int wanted) { return chunk->number() < wanted; });
  if (place == chunks_.end() || (*place)->number() != number) return nullptr;
  return place->get();
}

int64_t ChunkGroup::CompleteVersion() const {
  int64_t version = steps_;
  for (const auto& chunk : chunks_) {
    version = std::min(version, chunk->version());
  }
  return version;
}

std::optional<MissingWork> ChunkGroup::FindMissingWork() const {
  const int64_t step = CompleteVersion();
  for (const auto& chunk : chunks_) {
    const std::optional<int> leaf = chunk->FirstMissing(step);
    if (!leaf.has_value()) continue;
    MissingWork missing;
    missing.set_step(step);
    missing.set_leaf(*leaf);
    return missing;
  }
  return std::nullopt;
}

}  // namespace tributary
