#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/convolution.h"
#include "worker/device/cpu/kernels/winograd.h"
#include "worker/device/cpu/products/matmul.h"

namespace tributary::cpu {
namespace {

class Float32ConvolutionOps final : public ConvolutionOps {
 public:
  explicit Float32ConvolutionOps(Context* context)
      : context_(context), runner_(Precision::kFloat32, &context->scratch) {}

  void Forward(const ForwardArguments& args) override {
    if (SuitsWinograd(args.shape)) {
      WinogradForward(args.shape, AsFloats(args.x), AsFloats(args.weight),
                      args.bias, context_->scratch, AsFloats(args.y));
    } else {
      runner_.Forward(args.shape, args.x, args.weight, args.bias, args.y);
    }
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    if (SuitsWinograd(args.shape)) {
      WinogradBackwardInput(args.shape, AsFloats(args.dy),
                            AsFloats(args.weight), context_->scratch,
                            AsFloats(args.dx));
    } else {
      runner_.BackwardInput(args.shape, args.dy, args.weight, args.dx);
    }
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    runner_.BackwardWeight(args.shape, args.x, args.dy, args.dweight,
                           args.dbias);
  }

 private:
  Context* const context_;
  ConvolutionRunner runner_;
};

// For processors that multiply bfloat16.
class DirectConvolutionOps final : public ConvolutionOps {
 public:
  explicit DirectConvolutionOps(Context* context)
      : runner_(Precision::kBfloat16, &context->scratch) {}

  void Forward(const ForwardArguments& args) override {
    runner_.Forward(args.shape, args.x, args.weight, args.bias, args.y);
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    runner_.BackwardInput(args.shape, args.dy, args.weight, args.dx);
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    runner_.BackwardWeight(args.shape, args.x, args.dy, args.dweight,
                           args.dbias);
  }

 private:
  ConvolutionRunner runner_;
};

// For other processors: widens the operands, multiplies in float32, and rounds
// the results.
class WideningConvolutionOps final : public ConvolutionOps {
 public:
  explicit WideningConvolutionOps(Context* context)
      : context_(context), float32_(context) {}

  void Forward(const ForwardArguments& args) override {
    const ConvolutionShape& s = args.shape;
    float* out = Room(context_, 2, OutputSize(s));
    ForwardArguments wide = args;
    wide.x = Widened(0, InputSize(s), args.x);
    wide.weight = Widened(1, WeightSize(s), args.weight);
    wide.y = reinterpret_cast<Real*>(out);
    float32_.Forward(wide);
    Narrow(OutputSize(s), out, AsHalves(args.y));
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    const ConvolutionShape& s = args.shape;
    float* out = Room(context_, 2, InputSize(s));
    BackwardInputArguments wide = args;
    wide.dy = Widened(0, OutputSize(s), args.dy);
    wide.weight = Widened(1, WeightSize(s), args.weight);
    wide.dx = reinterpret_cast<Real*>(out);
    float32_.BackwardInput(wide);
    Narrow(InputSize(s), out, AsHalves(args.dx));
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    BackwardWeightArguments wide = args;
    wide.x = Widened(0, InputSize(args.shape), args.x);
    wide.dy = Widened(1, OutputSize(args.shape), args.dy);
    float32_.BackwardWeight(wide);
  }

 private:
  static int64_t InputSize(const ConvolutionShape& s) {
    return s.batch * s.in_channels * s.in_height * s.in_width;
  }
  static int64_t OutputSize(const ConvolutionShape& s) {
    return s.batch * s.out_channels * s.out_height * s.out_width;
  }
  static int64_t WeightSize(const ConvolutionShape& s) {
    return s.out_channels * s.in_channels * s.kernel * s.kernel;
  }
  const Real* Widened(int slot, int64_t count, const Real* x) {
    return reinterpret_cast<const Real*>(
        Read(context_, slot, count, AsHalves(x)));
  }

  Context* const context_;
  Float32ConvolutionOps float32_;
};

}  // namespace

std::unique_ptr<ConvolutionOps> CreateConvolutionOps(Precision precision,
                                                     Context* context) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32ConvolutionOps>(context);
  }
  if (MultipliesBfloat16()) {
    return std::make_unique<DirectConvolutionOps>(context);
  }
  return std::make_unique<WideningConvolutionOps>(context);
}

}  // namespace tributary::cpu
