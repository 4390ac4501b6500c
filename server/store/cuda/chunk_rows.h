// What a chunk's elements are, as kernels read it.
#ifndef TRIBUTARY_SERVER_STORE_CUDA_CHUNK_ROWS_H_
#define TRIBUTARY_SERVER_STORE_CUDA_CHUNK_ROWS_H_

#include <cstdint>
#include <vector>

namespace tributary {
class ArenaLayout;
}  // namespace tributary

namespace tributary::cuda {

// Elements of a row. Parameters begin at multiples of it, so that a row has
// elements of one parameter, and then of the gap behind it.
inline constexpr int kRowElements = 16;

enum class RowGroup : uint8_t { kDecay, kNoDecay, kStatistics };

// Elements [kRowElements * r, kRowElements * (r + 1)) of a chunk, for row r.
struct ChunkRow {
  RowGroup group = RowGroup::kNoDecay;
  uint8_t elements = 0;  // The rest are a gap.
};

// The rows of a chunk, in order.
std::vector<ChunkRow> RowsOf(const ArenaLayout& layout, int chunk);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_SERVER_STORE_CUDA_CHUNK_ROWS_H_
