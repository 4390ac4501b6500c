// The optimizer group and the learning rate factor of each element of a chunk,
// in the form in which GPU kernels read them.
#ifndef TRIBUTARY_COMMON_OPTIMIZER_CUDA_CHUNK_ROWS_H_
#define TRIBUTARY_COMMON_OPTIMIZER_CUDA_CHUNK_ROWS_H_

#include <cstdint>
#include <vector>

namespace tributary {
class ArenaLayout;
}  // namespace tributary

namespace tributary::cuda {

// Number of elements per row. Each parameter begins at a multiple of this
// number, so a row contains elements of only one parameter, possibly followed
// by a gap (unused elements before the next parameter).
inline constexpr int kRowElements = 16;

enum class RowGroup : uint8_t { kDecay, kNoDecay, kStatistics };

// Row r of a chunk: elements [kRowElements * r, kRowElements * (r + 1)).
struct ChunkRow {
  RowGroup group = RowGroup::kNoDecay;
  // Number of the row's elements that belong to a parameter; the rest of the
  // row is a gap.
  uint8_t elements = 0;
  float learning_rate_factor = 1;
};

// Returns the rows of a chunk, in order.
std::vector<ChunkRow> RowsOf(const ArenaLayout& layout, int chunk);

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_OPTIMIZER_CUDA_CHUNK_ROWS_H_
