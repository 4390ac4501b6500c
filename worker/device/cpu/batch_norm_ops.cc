#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/batch_norm.h"

namespace tributary::cpu {
namespace {

class Float32BatchNormOps : public BatchNormOps {
 public:
  void Forward(const ForwardArguments& args) override {
    BatchNormForward(args.shape, AsFloats(args.x), args.scale, args.shift,
                     AsFloats(args.residual), AsFloats(args.y), args.mean,
                     args.variance);
  }
  void Evaluate(const EvaluateArguments& args) override {
    BatchNormEvaluate(args.shape, AsFloats(args.x), args.scale, args.shift,
                      args.mean, args.variance, AsFloats(args.residual),
                      AsFloats(args.y));
  }
  void Backward(const BackwardArguments& args) override {
    BatchNormBackward(args.shape, AsFloats(args.x), args.scale, args.mean,
                      args.variance, AsFloats(args.y), AsFloats(args.dy),
                      AsFloats(args.dx), args.dscale, args.dshift,
                      AsFloats(args.dresidual));
  }
  void StatisticsGradient(const StatisticsGradientArguments& args) override {
    BatchNormStatisticsGradient(args.channels, args.observations,
                                args.sample_count, args.mean, args.variance,
                                args.running_mean, args.running_variance,
                                args.dmean, args.dvariance);
  }
};

// Processes groups of channels. Statistics are float32 in both precisions.
class Bfloat16BatchNormOps final : public Float32BatchNormOps {
 public:
  explicit Bfloat16BatchNormOps(Context* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const BatchNormShape& shape = args.shape;
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* out = Room(context_, 2, Size(s));
      BatchNormForward(s, Gather(0, shape, s, c, args.x), args.scale + c,
                       args.shift + c, Gather(1, shape, s, c, args.residual),
                       out, args.mean + c, args.variance + c);
      Scatter(shape, s, c, out, args.y);
    });
  }
  void Evaluate(const EvaluateArguments& args) override {
    const BatchNormShape& shape = args.shape;
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* out = Room(context_, 2, Size(s));
      BatchNormEvaluate(s, Gather(0, shape, s, c, args.x), args.scale + c,
                        args.shift + c, args.mean + c, args.variance + c,
                        Gather(1, shape, s, c, args.residual), out);
      Scatter(shape, s, c, out, args.y);
    });
  }
  void Backward(const BackwardArguments& args) override {
    const BatchNormShape& shape = args.shape;
    ForChannels(shape, [&](const BatchNormShape& s, int64_t c) {
      float* out = args.dx == nullptr ? nullptr : Room(context_, 3, Size(s));
      float* residual =
          args.dresidual == nullptr ? nullptr : Room(context_, 4, Size(s));
      BatchNormBackward(s, Gather(0, shape, s, c, args.x), args.scale + c,
                        args.mean + c, args.variance + c,
                        Gather(1, shape, s, c, shape.relu ? args.y : nullptr),
                        Gather(2, shape, s, c, args.dy), out, args.dscale + c,
                        args.dshift + c, residual);
      if (out != nullptr) Scatter(shape, s, c, out, args.dx);
      if (residual != nullptr) Scatter(shape, s, c, residual, args.dresidual);
    });
  }

 private:
  // Calls run(shape of a group of channels, first channel).
  template <typename Run>
  static void ForChannels(const BatchNormShape& shape, const Run& run) {
    InBlocks(shape.channels, shape.batch * shape.pixels, kLargeBlock,
             [&](int64_t first, int64_t n) {
               BatchNormShape group = shape;
               group.channels = n;
               run(group, first);
             });
  }
  static int64_t Size(const BatchNormShape& s) {
    return s.batch * s.channels * s.pixels;
  }
  // Returns the channels of `group`, starting at channel `first`, of all
  // images. Null yields null.
  const float* Gather(int slot, const BatchNormShape& shape,
                      const BatchNormShape& group, int64_t first,
                      const Real* x) {
    if (x == nullptr) return nullptr;
    float* to = Room(context_, slot, Size(group));
    const int64_t run = group.channels * group.pixels;
    for (int64_t n = 0; n < shape.batch; ++n) {
      Widen(run, AsHalves(x) + (n * shape.channels + first) * shape.pixels,
            to + n * run);
    }
    return to;
  }
  static void Scatter(const BatchNormShape& shape, const BatchNormShape& group,
                      int64_t first, const float* from, Real* y) {
    const int64_t run = group.channels * group.pixels;
    for (int64_t n = 0; n < shape.batch; ++n) {
      Narrow(run, from + n * run,
             AsHalves(y) + (n * shape.channels + first) * shape.pixels);
    }
  }

  Context* const context_;
};

}  // namespace

std::unique_ptr<BatchNormOps> CreateBatchNormOps(Precision precision,
                                                 Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32BatchNormOps>();
  }
  return std::make_unique<Bfloat16BatchNormOps>(context);
}

}  // namespace tributary::cpu
