#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/convolution_runner.h"
#include "worker/device/cpu/kernels/winograd.h"
#include "worker/device/cpu/products/matmul_runner.h"

namespace tributary::cpu {
namespace {

// For float32, and for processors that multiply bfloat16.
class DirectConvolutionOps final : public ConvolutionOps {
 public:
  DirectConvolutionOps(Precision precision, Context* context)
      : precision_(precision),
        context_(context),
        runner_(precision, &context->scratch) {}

  void Forward(const ForwardArguments& args) override {
    if (UsesWinograd(args.shape)) {
      WinogradForward(args.shape, As<float>(args.x), As<float>(args.weight),
                      args.bias, context_->scratch, As<float>(args.y));
    } else {
      runner_.Forward(args.shape, args.x, args.weight, args.bias, args.y);
    }
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    if (UsesWinograd(args.shape)) {
      WinogradBackwardInput(args.shape, As<float>(args.dy),
                            As<float>(args.weight), context_->scratch,
                            As<float>(args.dx));
    } else {
      runner_.BackwardInput(args.shape, args.dy, args.weight, args.dx);
    }
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    runner_.BackwardWeight(args.shape, args.x, args.dy, args.dweight,
                           args.dbias);
  }

 private:
  bool UsesWinograd(const ConvolutionShape& shape) const {
    return precision_ == Precision::kFloat32 && SuitsWinograd(shape);
  }

  const Precision precision_;
  Context* const context_;
  ConvolutionRunner runner_;
};

// For other processors: widens the operands, multiplies in float32, and rounds
// the results.
class WideningConvolutionOps final : public ConvolutionOps {
 public:
  explicit WideningConvolutionOps(Context* context)
      : context_(context), float32_(Precision::kFloat32, context) {}

  void Forward(const ForwardArguments& args) override {
    const ConvolutionShape& s = args.shape;
    float* const out = context_->slots[2].Floats(OutputSize(s));
    ForwardArguments wide = args;
    wide.x = Widened(0, InputSize(s), args.x);
    wide.weight = Widened(1, WeightSize(s), args.weight);
    wide.y = reinterpret_cast<Real*>(out);
    float32_.Forward(wide);
    Write<Bfloat16>(OutputSize(s), out, args.y);
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    const ConvolutionShape& s = args.shape;
    float* const out = context_->slots[2].Floats(InputSize(s));
    BackwardInputArguments wide = args;
    wide.dy = Widened(0, OutputSize(s), args.dy);
    wide.weight = Widened(1, WeightSize(s), args.weight);
    wide.dx = reinterpret_cast<Real*>(out);
    float32_.BackwardInput(wide);
    Write<Bfloat16>(InputSize(s), out, args.dx);
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
        Read<Bfloat16>(context_, slot, count, x));
  }

  Context* const context_;
  DirectConvolutionOps float32_;
};

}  // namespace

std::unique_ptr<ConvolutionOps> CreateConvolutionOps(Precision precision,
                                                     Context* context) {
  if (precision == Precision::kFloat32 || MultipliesBfloat16()) {
    return std::make_unique<DirectConvolutionOps>(precision, context);
  }
  return std::make_unique<WideningConvolutionOps>(context);
}

}  // namespace tributary::cpu
