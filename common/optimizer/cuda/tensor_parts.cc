#include "common/optimizer/cuda/tensor_parts.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include "common/optimizer/cuda/square_sums.h"
#include "common/parameters/gradient_squares.h"

namespace tributary::cuda {

TensorParts::TensorParts(const ArenaLayout& layout, int chunk) {
  for (const ChunkSegment& segment :
       layout.ChunkSegments(chunk, /*by_parameter=*/true)) {
    if (segment.group != DECAY) continue;
    const int64_t rows =
        (segment.end - segment.begin + kRowElements - 1) / kRowElements;
    parts_.push_back({segment.begin, rows * kRowElements});
    // Of the weights, and of the direction.
    blocks_ += 2 * SquareBlocks(parts_.back().elements);
  }
}

void TensorParts::Sum(Stream& stream, const ChunkUpdatePass& direction,
                      BlockSquares* sums) const {
  if (parts_.empty()) return;
  UpdateChunks(stream, {direction});
  std::vector<SquareSums> queued;
  for (const Part& part : parts_) {
    const std::initializer_list<const float*> arrays = {direction.weights,
                                                        direction.new_weights};
    for (const float* const x : arrays) {
      queued.push_back({part.elements, x + part.begin,
                        direction.rows + part.begin / kRowElements, sums});
      sums += SquareBlocks(part.elements);
    }
  }
  for (size_t begin = 0; begin < queued.size(); begin += kSquareChunks) {
    SumSquares(stream, absl::MakeSpan(queued).subspan(begin, kSquareChunks));
  }
}

std::vector<TensorSquares> TensorParts::Totals(const BlockSquares* sums) const {
  std::vector<TensorSquares> squares;
  for (const Part& part : parts_) {
    const auto blocks = static_cast<size_t>(SquareBlocks(part.elements));
    squares.push_back({GradientSquares::TotalOf({sums, blocks}),
                       GradientSquares::TotalOf({sums + blocks, blocks})});
    sums += 2 * blocks;
  }
  return squares;
}

void TensorParts::Scale(absl::Span<const float> trust_ratios,
                        absl::Span<ChunkRow> rows) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    for (ChunkRow& row : rows.subspan(parts_[i].begin / kRowElements,
                                      parts_[i].elements / kRowElements)) {
      row.learning_rate_factor *= trust_ratios[i];
    }
  }
}

}  // namespace tributary::cuda
