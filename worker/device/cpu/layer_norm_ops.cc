#include <algorithm>

#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/normalization.h"

namespace tributary::cpu {
namespace {

class Float32LayerNormOps final : public LayerNormOps {
 public:
  void Forward(const ForwardArguments& args) override {
    const float* x = AsFloats(args.x);
    if (args.branch != nullptr) {
      const int64_t count = args.rows * args.width;
      float* const sum = AsFloats(args.sum);
      if (args.sum != args.branch) {
        std::copy_n(AsFloats(args.branch), count, sum);
      }
      Add(count, x, sum);
      x = sum;
    }
    LayerNormForward(args.rows, args.width, x, args.scale, args.shift,
                     args.epsilon, AsFloats(args.y), args.mean,
                     args.inverse_deviation);
  }
  void Backward(const BackwardArguments& args) override {
    LayerNormBackward(args.rows, args.width, AsFloats(args.x), args.scale,
                      args.mean, args.inverse_deviation, AsFloats(args.dy),
                      args.accumulate, AsFloats(args.dx), args.dscale,
                      args.dshift);
  }
};

class Bfloat16LayerNormOps final : public LayerNormOps {
 public:
  explicit Bfloat16LayerNormOps(Context* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const int64_t width = args.width;
    InBlocks(args.rows, width, kBlock, [&](int64_t first, int64_t n) {
      const int64_t size = n * width, begin = first * width;
      const Bfloat16* x = AsHalves(args.x) + begin;
      if (args.branch != nullptr) {
        Bfloat16* const rounded = AsHalves(args.sum) + begin;
        float* const sum =
            Read(context_, 1, size, AsHalves(args.branch) + begin);
        Add(size, Read(context_, 0, size, x), sum);
        Narrow(size, sum, rounded);
        x = rounded;
      }
      float* out = Room(context_, 1, size);
      LayerNormForward(n, width, Read(context_, 0, size, x), args.scale,
                       args.shift, args.epsilon, out, args.mean + first,
                       args.inverse_deviation + first);
      Narrow(size, out, AsHalves(args.y) + begin);
    });
  }
  void Backward(const BackwardArguments& args) override {
    const int64_t width = args.width;
    // The first block writes the sums, later blocks add to them.
    float* sums = Room(context_, 3, 2 * width);
    InBlocks(args.rows, width, kLargeBlock, [&](int64_t first, int64_t n) {
      const int64_t size = n * width, begin = first * width;
      const bool adds = first > 0;
      float* scale_sum = adds ? sums : args.dscale;
      float* shift_sum =
          args.dshift != nullptr && adds ? sums + width : args.dshift;
      Bfloat16* const dx =
          args.dx == nullptr ? nullptr : AsHalves(args.dx) + begin;
      float* out = dx == nullptr     ? nullptr
                   : args.accumulate ? Read(context_, 2, size, dx)
                                     : Room(context_, 2, size);
      LayerNormBackward(
          n, width, Read(context_, 0, size, AsHalves(args.x) + begin),
          args.scale, args.mean + first, args.inverse_deviation + first,
          Read(context_, 1, size, AsHalves(args.dy) + begin), args.accumulate,
          out, scale_sum, shift_sum);
      if (dx != nullptr) Narrow(size, out, dx);
      if (!adds) return;
      Add(width, scale_sum, args.dscale);
      if (args.dshift != nullptr) Add(width, shift_sum, args.dshift);
    });
  }

 private:
  Context* const context_;
};

}  // namespace

std::unique_ptr<LayerNormOps> CreateLayerNormOps(Precision precision,
                                                 Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32LayerNormOps>();
  }
  return std::make_unique<Bfloat16LayerNormOps>(context);
}

}  // namespace tributary::cpu
