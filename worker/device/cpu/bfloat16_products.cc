#include "worker/device/cpu/bfloat16_products.h"

#include <array>

#include "worker/device/cpu/kernels/convolution.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/linear.h"
#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/cpu/products/bfloat16.h"
#include "worker/device/cpu/products/matmul.h"
#include "worker/device/cpu/products/skinny_gemm.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

using cpu::Bfloat16;

const Bfloat16* Typed(const Real* x) {
  return reinterpret_cast<const Bfloat16*>(x);
}
Bfloat16* Typed(Real* x) { return reinterpret_cast<Bfloat16*>(x); }

int64_t InputSize(const ConvolutionShape& s) {
  return s.batch * s.in_channels * s.in_height * s.in_width;
}
int64_t OutputSize(const ConvolutionShape& s) {
  return s.batch * s.out_channels * s.out_height * s.out_width;
}
int64_t WeightSize(const ConvolutionShape& s) {
  return s.out_channels * s.in_channels * s.kernel * s.kernel;
}

class DirectProducts final : public Bfloat16Products {
 public:
  void LinearForward(const LinearShape& s, const Real* x, const Real* weight,
                     const float* bias, Real* y) override {
    matmul_.Forward(s, x, weight, bias, y);
  }
  void LinearBackwardInput(const LinearShape& s, const Real* dy,
                           const Real* weight, bool accumulate,
                           Real* dx) override {
    matmul_.BackwardInput(s, dy, weight, accumulate, dx);
  }
  void LinearBackwardWeight(const LinearShape& s, const Real* x, const Real* dy,
                            bool accumulate, float* dweight,
                            float* dbias) override {
    matmul_.BackwardWeight(s, x, dy, accumulate, dweight);
    if (dbias == nullptr) return;
    float* wide = dy_.Floats(s.rows * s.outputs);
    cpu::Widen(s.rows * s.outputs, Typed(dy), wide);
    cpu::ColumnSums(s.rows, s.outputs, wide, dbias);
  }
  void ConvolutionForward(const ConvolutionShape& s, const Real* x,
                          const Real* weight, const float* bias,
                          Real* y) override {
    convolution_.Forward(s, x, weight, bias, y);
  }
  void ConvolutionBackwardInput(const ConvolutionShape& s, const Real* dy,
                                const Real* weight, Real* dx) override {
    convolution_.BackwardInput(s, dy, weight, dx);
  }
  void ConvolutionBackwardWeight(const ConvolutionShape& s, const Real* x,
                                 const Real* dy, float* dweight,
                                 float* dbias) override {
    convolution_.BackwardWeight(s, x, dy, dweight, dbias);
  }

 private:
  cpu::MatmulRunner matmul_{Precision::kBfloat16};
  cpu::ConvolutionRunner convolution_{Precision::kBfloat16};
  cpu::Scratch dy_;
};

class WideningProducts final : public Bfloat16Products {
 public:
  explicit WideningProducts(Device* float32) : float32_(float32) {}

  void LinearForward(const LinearShape& s, const Real* x, const Real* weight,
                     const float* bias, Real* y) override {
    const int64_t outputs = s.rows * s.outputs;
    float* out = Room(2, outputs);
    if (cpu::IsSkinnyForward(s)) {
      if (bias != nullptr) cpu::FillRows(s.rows, s.outputs, bias, out);
      cpu::SkinnyForward(s.rows, s.inputs, s.outputs,
                         Read(0, s.rows * s.inputs, Typed(x)), Typed(weight),
                         /*accumulate=*/bias != nullptr, out,
                         Room(1, s.inputs * cpu::kSkinnyRows));
      cpu::Narrow(outputs, out, Typed(y));
      return;
    }
    float32_->LinearForward(
        s, AsReals(Read(0, s.rows * s.inputs, Typed(x))),
        AsReals(Read(1, s.inputs * s.outputs, Typed(weight))), bias,
        AsReals(out));
    cpu::Narrow(outputs, out, Typed(y));
  }
  void LinearBackwardInput(const LinearShape& s, const Real* dy,
                           const Real* weight, bool accumulate,
                           Real* dx) override {
    const int64_t inputs = s.rows * s.inputs;
    float* out = accumulate ? Read(2, inputs, Typed(dx)) : Room(2, inputs);
    if (cpu::IsSkinnyBackwardInput(s)) {
      cpu::SkinnyBackwardInput(s.rows, s.inputs, s.outputs,
                               Read(0, s.rows * s.outputs, Typed(dy)),
                               Typed(weight), accumulate, out);
      cpu::Narrow(inputs, out, Typed(dx));
      return;
    }
    float32_->LinearBackwardInput(
        s, AsReals(Read(0, s.rows * s.outputs, Typed(dy))),
        AsReals(Read(1, s.inputs * s.outputs, Typed(weight))), accumulate,
        AsReals(out));
    cpu::Narrow(inputs, out, Typed(dx));
  }
  void LinearBackwardWeight(const LinearShape& s, const Real* x, const Real* dy,
                            bool accumulate, float* dweight,
                            float* dbias) override {
    float32_->LinearBackwardWeight(
        s, AsReals(Read(0, s.rows * s.inputs, Typed(x))),
        AsReals(Read(1, s.rows * s.outputs, Typed(dy))), accumulate, dweight,
        dbias);
  }
  void ConvolutionForward(const ConvolutionShape& s, const Real* x,
                          const Real* weight, const float* bias,
                          Real* y) override {
    float* out = Room(2, OutputSize(s));
    float32_->ConvolutionForward(s, AsReals(Read(0, InputSize(s), Typed(x))),
                                 AsReals(Read(1, WeightSize(s), Typed(weight))),
                                 bias, AsReals(out));
    cpu::Narrow(OutputSize(s), out, Typed(y));
  }
  void ConvolutionBackwardInput(const ConvolutionShape& s, const Real* dy,
                                const Real* weight, Real* dx) override {
    float* out = Room(2, InputSize(s));
    float32_->ConvolutionBackwardInput(
        s, AsReals(Read(0, OutputSize(s), Typed(dy))),
        AsReals(Read(1, WeightSize(s), Typed(weight))), AsReals(out));
    cpu::Narrow(InputSize(s), out, Typed(dx));
  }
  void ConvolutionBackwardWeight(const ConvolutionShape& s, const Real* x,
                                 const Real* dy, float* dweight,
                                 float* dbias) override {
    float32_->ConvolutionBackwardWeight(
        s, AsReals(Read(0, InputSize(s), Typed(x))),
        AsReals(Read(1, OutputSize(s), Typed(dy))), dweight, dbias);
  }

 private:
  // Returns room for `count` floats. Each slot holds one tensor at a time.
  float* Room(int slot, int64_t count) { return slots_[slot].Floats(count); }
  // Like Room, filled with the numbers at `from`.
  float* Read(int slot, int64_t count, const Bfloat16* from) {
    float* to = Room(slot, count);
    cpu::Widen(count, from, to);
    return to;
  }

  Device* const float32_;
  std::array<cpu::Scratch, 3> slots_;
};

}  // namespace

std::unique_ptr<Bfloat16Products> CreateDirectProducts() {
  return std::make_unique<DirectProducts>();
}

std::unique_ptr<Bfloat16Products> CreateWideningProducts(Device* float32) {
  return std::make_unique<WideningProducts>(float32);
}

std::unique_ptr<Bfloat16Products> CreateBfloat16Products(Device* float32) {
  return cpu::MultipliesBfloat16() ? CreateDirectProducts()
                                   : CreateWideningProducts(float32);
}

}  // namespace tributary
