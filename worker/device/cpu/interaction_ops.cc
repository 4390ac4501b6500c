#include <algorithm>
#include <cstring>

#include "common/numerics/simd.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/elementwise.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;
using simd::Lanes;

// Vectors of a row whose dot products are computed together.
constexpr int64_t kTile = 2 * kLanes;
// Number of vectors whose products with others are computed at a time.
constexpr int64_t kRows = 4;

TRIBUTARY_MULTIVERSION
void Product(int64_t count, const float* a, const float* b, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = a[i] * b[i];
}

TRIBUTARY_MULTIVERSION
void AddProduct(int64_t count, const float* a, const float* b, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] += a[i] * b[i];
}

TRIBUTARY_MULTIVERSION
void SumRow(int64_t count, int64_t width, const float* x, const float* bias,
            float* y) {
  for (int64_t c = 0; c < width; ++c) {
    y[c] = bias == nullptr ? x[c] : bias[c] + x[c];
  }
  for (int64_t k = 1; k < count; ++k) {
    for (int64_t c = 0; c < width; ++c) y[c] += x[k * width + c];
  }
}

// x: [count, width]; `columns`: [width, kTile] floats of temporary memory. Each
// dot product is added in the order of its elements.
TRIBUTARY_MULTIVERSION
void PairDots(int64_t count, int64_t width, const float* x, float* columns,
              float* y) {
  for (int64_t first = 0; first + 1 < count; first += kTile) {
    const int64_t tile = std::min(count - first, kTile);
    for (int64_t j = 0; j < tile; ++j) {
      for (int64_t c = 0; c < width; ++c) {
        columns[c * kTile + j] = x[(first + j) * width + c];
      }
    }
    for (int64_t begin = first + 1; begin < count; begin += kRows) {
      const int64_t end = std::min(begin + kRows, count);
      const float* rows[kRows];
      for (int64_t k = 0; k < kRows; ++k) {
        rows[k] = x + std::min(begin + k, end - 1) * width;
      }
      Lanes low[kRows] = {}, high[kRows] = {};
      for (int64_t c = 0; c < width; ++c) {
        const Lanes a = simd::Load(columns + c * kTile);
        const Lanes b = simd::Load(columns + c * kTile + kLanes);
        for (int64_t k = 0; k < kRows; ++k) {
          low[k] += rows[k][c] * a;
          high[k] += rows[k][c] * b;
        }
      }
      for (int64_t i = begin; i < end; ++i) {
        float dots[kTile];
        simd::Store(dots, low[i - begin]);
        simd::Store(dots + kLanes, high[i - begin]);
        std::memcpy(y + i * (i - 1) / 2 + first, dots,
                    std::min(i - first, tile) * sizeof(float));
      }
    }
  }
}

// x, dx: [count, width]; `square`: [count + kRows, count] floats of temporary
// memory for the symmetric matrix of the gradients, whose product with x is dx.
// Each element of dx is added in the order of the vectors.
TRIBUTARY_MULTIVERSION
void PairDotsGradient(int64_t count, int64_t width, const float* x,
                      const float* dy, float* square, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    square[i * count + i] = 0;
    for (int64_t j = 0; j < i; ++j) {
      square[i * count + j] = square[j * count + i] = *dy++;
    }
  }
  int64_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    for (int64_t begin = 0; begin < count; begin += kRows) {
      // Rows behind the last one are computed from what is there.
      const float* const factors = square + begin * count;
      Lanes sums[kRows] = {};
      for (int64_t j = 0; j < count; ++j) {
        const Lanes a = simd::Load(x + j * width + c);
        for (int64_t k = 0; k < kRows; ++k) {
          sums[k] += factors[k * count + j] * a;
        }
      }
      for (int64_t i = begin; i < std::min(begin + kRows, count); ++i) {
        simd::Store(dx + i * width + c, sums[i - begin]);
      }
    }
  }
  if (c == width) return;
  for (int64_t i = 0; i < count; ++i) {
    float sums[kLanes] = {};
    for (int64_t j = 0; j < count; ++j) {
      const float factor = square[i * count + j];
      for (int64_t k = 0; k < width - c; ++k) {
        sums[k] += factor * x[j * width + c + k];
      }
    }
    std::memcpy(dx + i * width + c, sums, (width - c) * sizeof(float));
  }
}

// sums, squares: [width] floats of temporary memory.
TRIBUTARY_MULTIVERSION
float PairSum(int64_t count, int64_t width, const float* x, float* sums,
              float* squares) {
  for (int64_t c = 0; c < width; ++c) {
    sums[c] = x[c];
    squares[c] = x[c] * x[c];
  }
  for (int64_t k = 1; k < count; ++k) {
    const float* const row = x + k * width;
    for (int64_t c = 0; c < width; ++c) {
      sums[c] += row[c];
      squares[c] += row[c] * row[c];
    }
  }
  float total = 0;
  for (int64_t c = 0; c < width; ++c) total += sums[c] * sums[c] - squares[c];
  return 0.5f * total;
}

TRIBUTARY_MULTIVERSION
void PairSumGradient(int64_t count, int64_t width, const float* x, float g,
                     float* sums, float* dx) {
  for (int64_t c = 0; c < width; ++c) sums[c] = x[c];
  for (int64_t k = 1; k < count; ++k) {
    for (int64_t c = 0; c < width; ++c) sums[c] += x[k * width + c];
  }
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t c = 0; c < width; ++c) {
      dx[k * width + c] = g * (sums[c] - x[k * width + c]);
    }
  }
}

// T is what Real stands for. Computes row by row.
template <typename T>
class CpuInteractionOps final : public InteractionOps {
 public:
  explicit CpuInteractionOps(Context* context) : context_(context) {}

  void CopyBlocks(const CopyBlocksArguments& args) override {
    for (int64_t r = 0; r < args.rows; ++r) {
      for (int64_t k = 0; k < args.count; ++k) {
        const int64_t from =
            args.from.first + r * args.from.row_stride + k * args.from.stride;
        const int64_t to =
            args.to.first + r * args.to.row_stride + k * args.to.stride;
        if (args.accumulate) {
          float* const y = Read<T>(context_, 1, args.width, args.y, to);
          Add(args.width, Read<T>(context_, 0, args.width, args.x, from), y);
          Write<T>(args.width, y, args.y, to);
        } else {
          std::memcpy(As<T>(args.y) + to, As<T>(args.x) + from,
                      args.width * sizeof(T));
        }
      }
    }
  }
  void Multiply(const MultiplyArguments& args) override {
    InBlocks<T>(args.count, 1, kSmallBlock, [&](int64_t first, int64_t n) {
      const float* const a = Read<T>(context_, 0, n, args.a, first);
      const float* const b = Read<T>(context_, 1, n, args.b, first);
      float* const y = args.accumulate ? Read<T>(context_, 2, n, args.y, first)
                                       : Room<T>(context_, 2, n, args.y, first);
      (args.accumulate ? &AddProduct : &Product)(n, a, b, y);
      Write<T>(n, y, args.y, first);
    });
  }
  void SumBlocks(const SumBlocksArguments& args) override {
    const int64_t size = args.count * args.width;
    for (int64_t r = 0; r < args.rows; ++r) {
      float* const y = Room<T>(context_, 1, args.width, args.y, r * args.width);
      SumRow(args.count, args.width,
             Read<T>(context_, 0, size, args.x, r * size), args.bias, y);
      Write<T>(args.width, y, args.y, r * args.width);
    }
  }
  void BiasGradient(const BiasGradientArguments& args) override {
    ColumnSums(args.rows, args.width,
               Read<T>(context_, 0, args.rows * args.width, args.dy),
               args.dbias);
  }
  void PairDotsForward(const PairsForwardArguments& args) override {
    const int64_t size = args.count * args.width;
    const int64_t pairs = args.count * (args.count - 1) / 2;
    float* const columns = context_->scratch.Floats(args.width * kTile);
    for (int64_t r = 0; r < args.rows; ++r) {
      float* const y = Room<T>(context_, 1, pairs, args.y, r * pairs);
      PairDots(args.count, args.width,
               Read<T>(context_, 0, size, args.x, r * size), columns, y);
      Write<T>(pairs, y, args.y, r * pairs);
    }
  }
  void PairDotsBackward(const PairsBackwardArguments& args) override {
    const int64_t pairs = args.count * (args.count - 1) / 2;
    float* const square =
        context_->scratch.Floats((args.count + kRows) * args.count);
    Gradient(args, pairs, [&](const float* x, const float* dy, float* dx) {
      PairDotsGradient(args.count, args.width, x, dy, square, dx);
    });
  }
  void PairSumForward(const PairsForwardArguments& args) override {
    const int64_t size = args.count * args.width;
    float* const sums = context_->scratch.Floats(2 * args.width);
    for (int64_t r = 0; r < args.rows; ++r) {
      float* const y = Room<T>(context_, 1, 1, args.y, r);
      *y = PairSum(args.count, args.width,
                   Read<T>(context_, 0, size, args.x, r * size), sums,
                   sums + args.width);
      Write<T>(1, y, args.y, r);
    }
  }
  void PairSumBackward(const PairsBackwardArguments& args) override {
    float* const sums = context_->scratch.Floats(args.width);
    Gradient(args, 1, [&](const float* x, const float* dy, float* dx) {
      PairSumGradient(args.count, args.width, x, *dy, sums, dx);
    });
  }

 private:
  // Calls gradient(x, dy, dx) for each row; a row of dy has `outputs` elements.
  template <typename Function>
  void Gradient(const PairsBackwardArguments& args, int64_t outputs,
                const Function& gradient) {
    const int64_t size = args.count * args.width;
    for (int64_t r = 0; r < args.rows; ++r) {
      float* const dx = Room<T>(context_, 2, size, args.dx, r * size);
      gradient(Read<T>(context_, 0, size, args.x, r * size),
               Read<T>(context_, 1, outputs, args.dy, r * outputs), dx);
      Write<T>(size, dx, args.dx, r * size);
    }
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<InteractionOps> CreateInteractionOps(Precision precision,
                                                     Context* context) {
  return CreateOps<InteractionOps, CpuInteractionOps>(precision, context);
}

}  // namespace tributary::cpu
