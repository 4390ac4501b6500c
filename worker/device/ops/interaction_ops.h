// Selects blocks of rows, and computes interactions between vectors.
#ifndef TRIBUTARY_WORKER_DEVICE_OPS_INTERACTION_OPS_H_
#define TRIBUTARY_WORKER_DEVICE_OPS_INTERACTION_OPS_H_

#include <cstdint>

#include "worker/device/ops/real.h"

namespace tributary {

// Operations of models whose samples consist of several vectors. See
// worker/device/device.h for the conventions of all operations.
class InteractionOps {
 public:
  // Blocks of a matrix's rows: block k of row r begins at element first + r *
  // row_stride + k * stride.
  struct Blocks {
    int64_t first = 0;
    int64_t row_stride = 0;
    int64_t stride = 0;
  };
  struct CopyBlocksArguments {
    int64_t rows = 0;
    int64_t count = 0;  // Number of blocks of a row.
    int64_t width = 0;  // Number of elements of a block.
    const Real* x = nullptr;
    Blocks from;
    Real* y = nullptr;
    Blocks to;                // Its blocks must not overlap.
    bool accumulate = false;  // True to add to y.
  };
  struct MultiplyArguments {
    int64_t count = 0;
    const Real* a = nullptr;  // [count]
    const Real* b = nullptr;  // [count]
    Real* y = nullptr;        // [count]
    bool accumulate = false;  // True to add to y.
  };
  struct SumBlocksArguments {
    int64_t rows = 0, count = 0, width = 0;
    const Real* x = nullptr;      // [rows, count, width]
    const float* bias = nullptr;  // [width]; null stands for 0.
    Real* y = nullptr;            // [rows, width]
  };
  struct BiasGradientArguments {
    int64_t rows = 0, width = 0;
    const Real* dy = nullptr;  // [rows, width]
    float* dbias = nullptr;    // [width]
  };
  struct PairsForwardArguments {
    int64_t rows = 0, count = 0, width = 0;
    const Real* x = nullptr;  // [rows, count, width]
    Real* y = nullptr;        // See the operation.
  };
  struct PairsBackwardArguments {
    int64_t rows = 0, count = 0, width = 0;
    const Real* x = nullptr;   // [rows, count, width]
    const Real* dy = nullptr;  // The shape of y.
    Real* dx = nullptr;        // [rows, count, width]
  };

  virtual ~InteractionOps() = default;

  // Copies each block of x to the block of y with the same row and number, or
  // adds it.
  virtual void CopyBlocks(const CopyBlocksArguments& args) = 0;
  // Computes y = a b, element by element. With `accumulate`, adds the product
  // to y instead.
  virtual void Multiply(const MultiplyArguments& args) = 0;
  // Computes y[r, c] = bias[c] + x[r, 0, c] + x[r, 1, c] + ..., in this order.
  virtual void SumBlocks(const SumBlocksArguments& args) = 0;
  // Sets dbias to the column sums of dy.
  virtual void BiasGradient(const BiasGradientArguments& args) = 0;
  // PairDotsForward computes the dot products of all pairs of the `count`
  // vectors of each row, y[rows, count (count - 1) / 2]: y[r, i (i - 1) / 2 +
  // j] is the dot product of x[r, i, :] and x[r, j, :], for j < i.
  // PairDotsBackward computes dx.
  virtual void PairDotsForward(const PairsForwardArguments& args) = 0;
  virtual void PairDotsBackward(const PairsBackwardArguments& args) = 0;
  // PairSumForward computes the sum of these dot products, y[rows], as half the
  // sum over c of s[c]^2 - (x[r, 0, c]^2 + x[r, 1, c]^2 + ...), where s is the
  // sum of the vectors. PairSumBackward computes dx[r, i, c] = dy[r] (s[c] -
  // x[r, i, c]).
  virtual void PairSumForward(const PairsForwardArguments& args) = 0;
  virtual void PairSumBackward(const PairsBackwardArguments& args) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DEVICE_OPS_INTERACTION_OPS_H_
