// The code that computes a float32 product depends on its shape only, because
// the order of summation, and therefore the bits, depend on the code.
//
// Measured on one core of a 2.6 GHz Sapphire Rapids, in GFLOP/s, best of
// several runs on a shared machine:
//
//   rows x inputs -> outputs  forward         input gradient  weight gradient
//                             OpenBLAS oneDNN OpenBLAS oneDNN OpenBLAS oneDNN
//   64 x 784 -> 512           118      164    -        -      154      180
//   64 x 512 -> 512           121      165    152      199    150      180
//   64 x 3136 -> 128          113      142    118      178    136      171
//   1024 x 128 -> 384         165      196    157      195    146      170
//   1024 x 512 -> 128         155      173    156      189    134      171
//   16 x 4096 -> 4096         56       65     39       48     68       159
//
// oneDNN (2.6.3; OpenBLAS 0.3.21) is faster except for very narrow layers, and
// convolutions need it, so it is the only library. The last row is one pass
// over 64 MiB: SkinnyForward raises 65 to 111, at 14 GB/s, and
// SkinnyBackwardInput raises 48 to 97. Below the limits in this file oneDNN is
// faster again: its weights are in the cache, or some lanes would be idle.
#include "worker/device/cpu/cpu_ops.h"
#include "worker/device/cpu/in_blocks.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/products/gemm.h"
#include "worker/device/cpu/products/matmul_runner.h"
#include "worker/device/cpu/products/skinny_gemm.h"

namespace tributary::cpu {
namespace {

// Return true if the functions of products/skinny_gemm.h, which are faster than
// Gemm for few rows and large weights, compute the product.
bool IsSkinnyForward(const LinearShape& s) {
  return s.rows >= 6 && s.rows <= kSkinnyRows &&
         s.inputs * s.outputs >= int64_t{1} << 20;
}

bool IsSkinnyBackwardInput(const LinearShape& s) {
  return s.rows >= 4 && s.rows <= kSkinnyRows &&
         s.inputs * s.outputs >= int64_t{1} << 23;
}

// Runs GELU as an operation of its own.
class CpuLinearOps : public LinearOps {
 public:
  CpuLinearOps(Context* context, ElementwiseOps* elementwise)
      : context_(context), elementwise_(elementwise) {}

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

 protected:
  Context* const context_;

 private:
  ElementwiseOps* const elementwise_;
};

// Multiplies in float32. T is what Real stands for.
template <typename T>
class GemmLinearOps final : public CpuLinearOps {
 public:
  using CpuLinearOps::CpuLinearOps;

  void Forward(const ForwardArguments& args) override {
    const LinearShape& s = args.shape;
    float* const y = Room<T>(context_, 2, s.rows * s.outputs, args.y);
    const float* const x = Read<T>(context_, 0, s.rows * s.inputs, args.x);
    const bool biased = args.bias != nullptr;
    if (biased) FillRows(s.rows, s.outputs, args.bias, y);
    if (IsSkinnyForward(s)) {
      SkinnyForward(s.rows, s.inputs, s.outputs, x, As<T>(args.weight),
                    /*accumulate=*/biased, y,
                    context_->scratch.Floats(s.inputs * kSkinnyRows));
    } else {
      Gemm(s.rows, s.outputs, s.inputs, {x, s.inputs},
           {Weight(s, args.weight), s.inputs, /*transposed=*/true},
           /*accumulate=*/biased, y, s.outputs);
    }
    Write<T>(s.rows * s.outputs, y, args.y);
  }
  void BackwardInput(const BackwardInputArguments& args) override {
    const LinearShape& s = args.shape;
    const int64_t inputs = s.rows * s.inputs;
    float* const dx = args.accumulate ? Read<T>(context_, 2, inputs, args.dx)
                                      : Room<T>(context_, 2, inputs, args.dx);
    const float* const dy = Read<T>(context_, 0, s.rows * s.outputs, args.dy);
    if (IsSkinnyBackwardInput(s)) {
      SkinnyBackwardInput(s.rows, s.inputs, s.outputs, dy, As<T>(args.weight),
                          args.accumulate, dx);
    } else {
      Gemm(s.rows, s.inputs, s.outputs, {dy, s.outputs},
           {Weight(s, args.weight), s.inputs}, args.accumulate, dx, s.inputs);
    }
    Write<T>(inputs, dx, args.dx);
  }
  void BackwardWeight(const BackwardWeightArguments& args) override {
    const LinearShape& s = args.shape;
    const float* const x = Read<T>(context_, 0, s.rows * s.inputs, args.x);
    const float* const dy = Read<T>(context_, 1, s.rows * s.outputs, args.dy);
    Gemm(s.outputs, s.inputs, s.rows, {dy, s.outputs, /*transposed=*/true},
         {x, s.inputs}, args.accumulate, args.dweight, s.inputs);
    if (args.dbias != nullptr) ColumnSums(s.rows, s.outputs, dy, args.dbias);
  }

 private:
  const float* Weight(const LinearShape& s, const Real* weight) {
    return Read<T>(context_, 1, s.inputs * s.outputs, weight);
  }
};

// For processors that multiply bfloat16; sums are float32.
class Bfloat16LinearOps final : public CpuLinearOps {
 public:
  using CpuLinearOps::CpuLinearOps;

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
               Read<Bfloat16>(context_, 0, s.rows * s.outputs, args.dy),
               args.dbias);
  }

 private:
  MatmulRunner runner_{Precision::kBfloat16};
};

}  // namespace

std::unique_ptr<LinearOps> CreateLinearOps(Precision precision,
                                           Context* context,
                                           ElementwiseOps* elementwise) {
  if (precision == Precision::kBfloat16 && MultipliesBfloat16()) {
    return std::make_unique<Bfloat16LinearOps>(context, elementwise);
  }
  return CreateOps<LinearOps, GemmLinearOps>(precision, context, elementwise);
}

}  // namespace tributary::cpu
