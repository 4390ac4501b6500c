// The optimizer group of each element of a chunk, in the form that kernels
// read.
#ifndef TRIBUTARY_SERVER_STORE_CUDA_CHUNK_ROWS_H_
#define TRIBUTARY_SERVER_STORE_CUDA_CHUNK_ROWS_H_

#include <cstdint>
#include <vector>

namespace tributary {
class ArenaLayout;
}  // namespace tributary

namespace tributary::cuda {

// Elements per row. Parameters begin at multiples of it, so that a row holds
// elements of one parameter, possibly followed by a gap.
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
