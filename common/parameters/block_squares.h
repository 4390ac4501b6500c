// The blocks in which squares are summed (see gradient_squares.h).
#ifndef TRIBUTARY_COMMON_PARAMETERS_BLOCK_SQUARES_H_
#define TRIBUTARY_COMMON_PARAMETERS_BLOCK_SQUARES_H_

namespace tributary {

// Number of elements in a block. The squares of a block are summed in the order
// of SumOfSquares, and the sums of the blocks are added in order. Gradients and
// running statistics have separate sums, in each of which elements of the other
// kind count as zero. GPUs compute several blocks at the same time.
inline constexpr int kSquareBlock = 1024;

// Sums of squares of the elements of a block.
struct BlockSquares {
  double gradients = 0;
  double statistics = 0;  // Of running statistics (group STATISTICS).
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PARAMETERS_BLOCK_SQUARES_H_
