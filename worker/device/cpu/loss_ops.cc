#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/loss.h"

namespace tributary::cpu {
namespace {

class Float32LossOps final : public LossOps {
 public:
  void BeginSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyArguments& args) override {
    loss_ = SoftmaxCrossEntropy(args.rows, args.classes, AsFloats(args.logits),
                                args.labels, AsFloats(args.dlogits),
                                args.smoothing, args.padding);
  }
  void BeginMeanSquaredError(const MeanSquaredErrorArguments& args) override {
    loss_ = MeanSquaredError(args.rows, args.width, AsFloats(args.x),
                             args.target, AsFloats(args.dx));
  }
  void BeginBinaryCrossEntropy(
      const BinaryCrossEntropyArguments& args) override {
    loss_ = BinaryCrossEntropy(args.rows, AsFloats(args.logits), args.labels,
                               AsFloats(args.dlogits));
  }
  absl::StatusOr<Loss> Await() override { return loss_; }

 private:
  Loss loss_;
};

class Bfloat16LossOps final : public LossOps {
 public:
  explicit Bfloat16LossOps(Context* context) : context_(context) {}

  void BeginSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyArguments& args) override {
    loss_ = SumOverRows(args.rows, args.classes, args.logits, args.dlogits,
                        [&](int64_t first, int64_t n, float* x, float* dx) {
                          return SoftmaxCrossEntropy(
                              n, args.classes, x, args.labels + first, dx,
                              args.smoothing, args.padding);
                        });
  }
  void BeginMeanSquaredError(const MeanSquaredErrorArguments& args) override {
    loss_ = SumOverRows(args.rows, args.width, args.x, args.dx,
                        [&](int64_t first, int64_t n, float* x, float* dx) {
                          return MeanSquaredError(
                              n, args.width, x,
                              args.target + first * args.width, dx);
                        });
  }
  void BeginBinaryCrossEntropy(
      const BinaryCrossEntropyArguments& args) override {
    loss_ =
        SumOverRows(args.rows, /*width=*/1, args.logits, args.dlogits,
                    [&](int64_t first, int64_t n, float* x, float* dx) {
                      return BinaryCrossEntropy(n, x, args.labels + first, dx);
                    });
  }
  absl::StatusOr<Loss> Await() override { return loss_; }

 private:
  // Returns the loss of all rows. Writes each block's gradient over its input.
  template <typename Run>
  Loss SumOverRows(int64_t rows, int64_t width, const Real* x, Real* dx,
                   const Run& run) {
    Loss loss;
    InBlocks(rows, width, kBlock, [&](int64_t first, int64_t n) {
      float* values = Read(context_, 0, n * width, AsHalves(x) + first * width);
      const Loss part = run(first, n, values, dx == nullptr ? nullptr : values);
      loss.sum += part.sum;
      loss.correct += part.correct;
      loss.counted += part.counted;
      if (dx == nullptr) return;
      Narrow(n * width, values, AsHalves(dx) + first * width);
    });
    return loss;
  }

  Context* const context_;
  Loss loss_;
};

}  // namespace

std::unique_ptr<LossOps> CreateLossOps(Precision precision, Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32LossOps>();
  }
  return std::make_unique<Bfloat16LossOps>(context);
}

}  // namespace tributary::cpu
