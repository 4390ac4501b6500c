#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/bias.h"
#include "worker/device/cuda/kernels/map.h"

namespace tributary::cuda {
namespace {

// The vectors of pair number `pair` of PairDotsForward: j < i.
struct Pair {
  int64_t i, j;
};

__device__ inline Pair PairOf(int64_t pair) {
  auto i = static_cast<int64_t>((1.0 + sqrt(1.0 + 8.0 * pair)) / 2.0);
  // The square root is rounded.
  while (i * (i - 1) / 2 > pair) --i;
  while (i * (i + 1) / 2 <= pair) ++i;
  return {i, pair - i * (i - 1) / 2};
}

// T is what Real stands for. A thread computes each element, in order.
template <typename T>
class CudaInteractionOps final : public InteractionOps {
 public:
  explicit CudaInteractionOps(CudaContext* context) : context_(context) {}

  void CopyBlocks(const CopyBlocksArguments& args) override {
    const T* const x = As<T>(args.x);
    T* const y = As<T>(args.y);
    const Blocks from = args.from, to = args.to;
    const int64_t width = args.width;
    const bool accumulate = args.accumulate;
    ForEachInRows(
        context_->Current(), "CopyBlocks", args.rows, args.count * width,
        [=] __device__(int64_t r, int64_t i) {
          const int64_t k = i / width, c = i % width;
          const T value =
              x[from.first + r * from.row_stride + k * from.stride + c];
          T& out = y[to.first + r * to.row_stride + k * to.stride + c];
          if (accumulate) {
            out = float{out} + float{value};
          } else {
            out = value;
          }
        });
  }
  void Multiply(const MultiplyArguments& args) override {
    Stream& stream = context_->Current();
    const T* const a = As<T>(args.a);
    const T* const b = As<T>(args.b);
    T* const y = As<T>(args.y);
    if (!args.accumulate) {
      return Map(stream, "Multiply", args.count, a, b, y,
                 [] __device__(float v, float w) { return v * w; });
    }
    ForEach(stream, "Multiply", args.count, [=] __device__(int64_t i) {
      y[i] = float{y[i]} + float{a[i]} * float{b[i]};
    });
  }
  void SumBlocks(const SumBlocksArguments& args) override {
    const T* const x = As<T>(args.x);
    T* const y = As<T>(args.y);
    const float* const bias = args.bias;
    const int64_t count = args.count, width = args.width;
    ForEach(context_->Current(), "SumBlocks", args.rows * width,
            [=] __device__(int64_t i) {
              const T* const row = x + i / width * count * width + i % width;
              float sum = row[0];
              if (bias != nullptr) sum = bias[i % width] + sum;
              for (int64_t k = 1; k < count; ++k) sum += row[k * width];
              y[i] = sum;
            });
  }
  void BiasGradient(const BiasGradientArguments& args) override {
    ColumnSums(context_->Current(), context_->scratch(), args.rows, args.width,
               As<T>(args.dy), args.dbias);
  }
  void PairDotsForward(const PairsForwardArguments& args) override {
    const T* const x = As<T>(args.x);
    T* const y = As<T>(args.y);
    const int64_t count = args.count, width = args.width;
    const int64_t pairs = count * (count - 1) / 2;
    ForEachInRows(context_->Current(), "PairDotsForward", args.rows, pairs,
                  [=] __device__(int64_t r, int64_t p) {
                    const Pair pair = PairOf(p);
                    const T* const a = x + (r * count + pair.i) * width;
                    const T* const b = x + (r * count + pair.j) * width;
                    float sum = 0;
                    for (int64_t c = 0; c < width; ++c) {
                      sum += float{a[c]} * float{b[c]};
                    }
                    y[r * pairs + p] = sum;
                  });
  }
  void PairDotsBackward(const PairsBackwardArguments& args) override {
    const T* const x = As<T>(args.x);
    const T* const dy = As<T>(args.dy);
    T* const dx = As<T>(args.dx);
    const int64_t count = args.count, width = args.width;
    const int64_t pairs = count * (count - 1) / 2;
    ForEachInRows(
        context_->Current(), "PairDotsBackward", args.rows, count * width,
        [=] __device__(int64_t r, int64_t e) {
          const int64_t i = e / width, c = e % width;
          const T* const g = dy + r * pairs;
          const T* const row = x + r * count * width + c;
          float sum = 0;
          for (int64_t j = 0; j < i; ++j) {
            sum += float{g[i * (i - 1) / 2 + j]} * float{row[j * width]};
          }
          for (int64_t j = i + 1; j < count; ++j) {
            sum += float{g[j * (j - 1) / 2 + i]} * float{row[j * width]};
          }
          dx[r * count * width + e] = sum;
        });
  }
  void PairSumForward(const PairsForwardArguments& args) override {
    const T* const x = As<T>(args.x);
    T* const y = As<T>(args.y);
    const int64_t count = args.count, width = args.width;
    ForEach(context_->Current(), "PairSumForward", args.rows,
            [=] __device__(int64_t r) {
              const T* const row = x + r * count * width;
              float total = 0;
              for (int64_t c = 0; c < width; ++c) {
                float sum = 0, squares = 0;
                for (int64_t k = 0; k < count; ++k) {
                  const float value = row[k * width + c];
                  sum += value;
                  squares += value * value;
                }
                total += sum * sum - squares;
              }
              y[r] = 0.5f * total;
            });
  }
  void PairSumBackward(const PairsBackwardArguments& args) override {
    const T* const x = As<T>(args.x);
    const T* const dy = As<T>(args.dy);
    T* const dx = As<T>(args.dx);
    const int64_t count = args.count, width = args.width;
    ForEachInRows(context_->Current(), "PairSumBackward", args.rows, width,
                  [=] __device__(int64_t r, int64_t c) {
                    const int64_t first = r * count * width + c;
                    float sum = 0;
                    for (int64_t k = 0; k < count; ++k) {
                      sum += float{x[first + k * width]};
                    }
                    for (int64_t k = 0; k < count; ++k) {
                      dx[first + k * width] =
                          float{dy[r]} * (sum - float{x[first + k * width]});
                    }
                  });
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<InteractionOps> CreateInteractionOps(Precision precision,
                                                     CudaContext* context) {
  return CreateOps<InteractionOps, CudaInteractionOps>(precision, context);
}

}  // namespace tributary::cuda
