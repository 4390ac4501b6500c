#include "worker/device/cpu/bfloat16_blocks.h"
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/linear.h"
#include "worker/device/cpu/products/matmul.h"
#include "worker/device/cpu/products/skinny_gemm.h"

namespace tributary::cpu {
namespace {

// Runs GELU as an operation of its own.
class CpuLinearOps : public LinearOps {
 public:
  explicit CpuLinearOps(ElementwiseOps* elementwise)
      : elementwise_(elementwise) {}

  void GeluForward(const GeluForwardArguments& args) final {
    Forward({args.shape, args.x, args.weight, args.bias, args.z});
    elementwise_->GeluForward(
        {args.shape.rows * args.shape.outputs, args.z, args.y});
  }
  void GeluBackwardInput(const GeluBackwardInputArguments& args) final {
    BackwardInput(
        {args.shape, args.dy, args.weight, /*accumulate=*/false, args.dz});
    elementwise_->GeluBackward(
        {args.shape.rows * args.shape.inputs, args.z, args.dz, args.dz});
  }

 private:
  ElementwiseOps* const elementwise_;
};

class Float32LinearOps final : public CpuLinearOps {
 public:
  Float32LinearOps(Context* context, ElementwiseOps* elementwise)
      : CpuLinearOps(elementwise), context_(context) {}

  void Forward(const ForwardArguments& args) override {
    LinearForward(args.shape, AsFloats(args.x), AsFloats(args.weight),
                  args.bias, context_->scratch, AsFloats(args.y));
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    LinearBackwardInput(args.shape, AsFloats(args.dy), AsFloats(args.weight),
                        args.accumulate, AsFloats(args.dx));
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    LinearBackwardWeight(args.shape, AsFloats(args.x), AsFloats(args.dy),
                         args.accumulate, args.dweight, args.dbias);
  }

 private:
  Context* const context_;
};

// For processors that multiply bfloat16; sums are float32.
class DirectLinearOps final : public CpuLinearOps {
 public:
  DirectLinearOps(Context* context, ElementwiseOps* elementwise)
      : CpuLinearOps(elementwise), context_(context) {}

  void Forward(const ForwardArguments& args) override {
    runner_.Forward(args.shape, args.x, args.weight, args.bias, args.y);
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    runner_.BackwardInput(args.shape, args.dy, args.weight, args.accumulate,
                          args.dx);
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    const LinearShape& s = args.shape;
    runner_.BackwardWeight(s, args.x, args.dy, args.accumulate, args.dweight);
    if (args.dbias == nullptr) return;
    ColumnSums(s.rows, s.outputs,
               Read(context_, 0, s.rows * s.outputs, AsHalves(args.dy)),
               args.dbias);
  }

 private:
  Context* const context_;
  MatmulRunner runner_{Precision::kBfloat16};
};

// For other processors: widens the operands, multiplies in float32, and rounds
// the results.
class WideningLinearOps final : public CpuLinearOps {
 public:
  WideningLinearOps(Context* context, ElementwiseOps* elementwise)
      : CpuLinearOps(elementwise), context_(context) {}

  void Forward(const ForwardArguments& args) override {
    const LinearShape& s = args.shape;
    const int64_t outputs = s.rows * s.outputs;
    float* out = Room(context_, 2, outputs);
    const float* x = Read(context_, 0, s.rows * s.inputs, AsHalves(args.x));
    if (IsSkinnyForward(s)) {
      const bool biased = args.bias != nullptr;
      if (biased) FillRows(s.rows, s.outputs, args.bias, out);
      SkinnyForward(s.rows, s.inputs, s.outputs, x, AsHalves(args.weight),
                    /*accumulate=*/biased, out,
                    Room(context_, 1, s.inputs * kSkinnyRows));
    } else {
      LinearForward(
          s, x, Read(context_, 1, s.inputs * s.outputs, AsHalves(args.weight)),
          args.bias, context_->scratch, out);
    }
    Narrow(outputs, out, AsHalves(args.y));
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    const LinearShape& s = args.shape;
    const int64_t inputs = s.rows * s.inputs;
    float* out = args.accumulate ? Read(context_, 2, inputs, AsHalves(args.dx))
                                 : Room(context_, 2, inputs);
    const float* dy = Read(context_, 0, s.rows * s.outputs, AsHalves(args.dy));
    if (IsSkinnyBackwardInput(s)) {
      SkinnyBackwardInput(s.rows, s.inputs, s.outputs, dy,
                          AsHalves(args.weight), args.accumulate, out);
    } else {
      LinearBackwardInput(
          s, dy, Read(context_, 1, s.inputs * s.outputs, AsHalves(args.weight)),
          args.accumulate, out);
    }
    Narrow(inputs, out, AsHalves(args.dx));
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    const LinearShape& s = args.shape;
    LinearBackwardWeight(
        s, Read(context_, 0, s.rows * s.inputs, AsHalves(args.x)),
        Read(context_, 1, s.rows * s.outputs, AsHalves(args.dy)),
        args.accumulate, args.dweight, args.dbias);
  }

 private:
  Context* const context_;
};

}  // namespace

std::unique_ptr<LinearOps> CreateLinearOps(Precision precision,
                                           Context* context,
                                           ElementwiseOps* elementwise) {
  if (precision == Precision::kFloat32) {
    return std::make_unique<Float32LinearOps>(context, elementwise);
  }
  if (MultipliesBfloat16()) {
    return std::make_unique<DirectLinearOps>(context, elementwise);
  }
  return std::make_unique<WideningLinearOps>(context, elementwise);
}

}  // namespace tributary::cpu
