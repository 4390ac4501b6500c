#include "server/checkpoint/tensor_pieces.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tributary {

std::string TensorPiece::Name() const {
  return whole() ? parameter->name
                 : absl::StrCat(parameter->name, "[", begin, ":", end, "]");
}

std::vector<TensorPiece> PiecesOf(const ArenaLayout& layout, int shard,
                                  int servers) {
  std::vector<const Parameter*> sorted;
  for (const Parameter& parameter : layout.parameters()) {
    sorted.push_back(&parameter);
  }
  std::sort(
      sorted.begin(), sorted.end(),
      [](const Parameter* a, const Parameter* b) { return a->name < b->name; });
  std::vector<TensorPiece> pieces;
  for (const Parameter* parameter : sorted) {
    const int64_t end = parameter->offset + parameter->size;
    int64_t begin = parameter->offset;
    while (begin < end) {
      const int chunk = static_cast<int>(begin / layout.chunk_elements());
      const int64_t next = std::min(end, layout.ChunkBegin(chunk + 1));
      const int64_t from = begin - parameter->offset;
      const int64_t to = next - parameter->offset;
      begin = next;
      if (ArenaLayout::ShardOf(chunk, servers) != shard) continue;
      if (!pieces.empty() && pieces.back().parameter == parameter &&
          pieces.back().end == from) {
        pieces.back().end = to;
      } else {
        pieces.push_back({parameter, from, to});
      }
    }
  }
  return pieces;
}

}  // namespace tributary
