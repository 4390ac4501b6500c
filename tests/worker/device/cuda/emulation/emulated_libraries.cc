// Stand in for cuBLASLt and cuDNN: the CPU's own products and convolutions, of
// rounded factors where TF32 is asked for.
// The tests here are of our kernels and of how the device puts them together.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/convolution.h"
#include "worker/device/cuda/linear.h"
#include "worker/device/device.h"

namespace tributary::cuda {
namespace {

// As cuBLASLt demands of GELU in an epilogue.
constexpr int64_t kAuxMultiple = 8;

// `work` is part of the stream's.
template <typename Work>
void Enqueue(Stream& stream, const Work& work) {
  emulated_gpu::Enqueue(stream.get(), [work] {
    const emulated_gpu::Running running;
    work();
    return true;
  });
}

// To the nearest number with 10 bits of fraction.
float RoundToTf32(float x) {
  constexpr uint32_t kLost = (1u << 13) - 1;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + kLost / 2 + ((bits >> 13) & 1)) & ~kLost;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

// What the library makes of a factor of products, in device memory.
class Factor {
 public:
  Factor(Precision precision, const Real* x, int64_t count) : x_(x) {
    if (precision != Precision::kTf32) return;
    const float* const values = reinterpret_cast<const float*>(x);
    rounded_.assign(values, values + count);
    for (float& value : rounded_) value = RoundToTf32(value);
    x_ = reinterpret_cast<const Real*>(rounded_.data());
  }
  operator const Real*() const { return x_; }

 private:
  const Real* x_;
  std::vector<float> rounded_;
};

class EmulatedLinearRunner final : public LinearRunner {
 public:
  explicit EmulatedLinearRunner(Precision precision)
      : precision_(precision), cpu_(CreateCpuDevice(precision)) {}

  void Forward(Stream& stream, Scratch&, const LinearShape& shape,
               const Real* x, const Real* weight, const float* bias,
               Real* y) override {
    Enqueue(stream, [=] {
      cpu_->LinearForward(shape, Rows(x, shape.rows, shape.inputs),
                          Rows(weight, shape.outputs, shape.inputs), bias, y);
    });
  }
  void BackwardInput(Stream& stream, Scratch&, const LinearShape& shape,
                     const Real* dy, const Real* weight, bool accumulate,
                     Real* dx) override {
    Enqueue(stream, [=] {
      cpu_->LinearBackwardInput(shape, Rows(dy, shape.rows, shape.outputs),
                                Rows(weight, shape.outputs, shape.inputs),
                                accumulate, dx);
    });
  }
  bool GeluForward(Stream& stream, Scratch&, const LinearShape& shape,
                   const Real* x, const Real* weight, const float* bias,
                   Real* z, Real* y) override {
    if (shape.outputs % kAuxMultiple != 0) return false;
    Enqueue(stream, [=] {
      cpu_->LinearGeluForward(shape, Rows(x, shape.rows, shape.inputs),
                              Rows(weight, shape.outputs, shape.inputs), bias,
                              z, y);
    });
    return true;
  }
  bool GeluBackwardInput(Stream& stream, Scratch&, const LinearShape& shape,
                         const Real* dy, const Real* weight, const Real* z,
                         Real* dz) override {
    if (shape.inputs % kAuxMultiple != 0) return false;
    Enqueue(stream, [=] {
      cpu_->LinearGeluBackwardInput(shape, Rows(dy, shape.rows, shape.outputs),
                                    Rows(weight, shape.outputs, shape.inputs),
                                    z, dz);
    });
    return true;
  }
  void BackwardWeight(Stream& stream, Scratch&, const LinearShape& shape,
                      const Real* x, const Real* dy, bool accumulate,
                      float* dweight) override {
    Enqueue(stream, [=] {
      cpu_->LinearBackwardWeight(shape, Rows(x, shape.rows, shape.inputs),
                                 Rows(dy, shape.rows, shape.outputs),
                                 accumulate, dweight, /*dbias=*/nullptr);
    });
  }

 private:
  Factor Rows(const Real* x, int64_t rows, int64_t width) const {
    return Factor(precision_, x, rows * width);
  }

  const Precision precision_;
  const std::unique_ptr<Device> cpu_;
};

class EmulatedConvolutionRunner final : public ConvolutionRunner {
 public:
  explicit EmulatedConvolutionRunner(Precision precision)
      : precision_(precision), cpu_(CreateCpuDevice(precision)) {}

  void Forward(Stream& stream, Scratch&, const ConvolutionShape& shape,
               const Real* x, const Real* weight, Real* y) override {
    Enqueue(stream, [=] {
      cpu_->ConvolutionForward(shape, Input(shape, x), Weight(shape, weight),
                               /*bias=*/nullptr, y);
    });
  }
  void BackwardInput(Stream& stream, Scratch&, const ConvolutionShape& shape,
                     const Real* dy, const Real* weight, Real* dx) override {
    Enqueue(stream, [=] {
      cpu_->ConvolutionBackwardInput(shape, Output(shape, dy),
                                     Weight(shape, weight), dx);
    });
  }
  void BackwardWeight(Stream& stream, Scratch&, const ConvolutionShape& shape,
                      const Real* x, const Real* dy, float* dweight) override {
    Enqueue(stream, [=] {
      cpu_->ConvolutionBackwardWeight(shape, Input(shape, x), Output(shape, dy),
                                      dweight,
                                      /*dbias=*/nullptr);
    });
  }

 private:
  Factor Input(const ConvolutionShape& s, const Real* x) const {
    return Factor(precision_, x,
                  s.batch * s.in_channels * s.in_height * s.in_width);
  }
  Factor Weight(const ConvolutionShape& s, const Real* weight) const {
    return Factor(precision_, weight,
                  s.out_channels * s.in_channels * s.kernel * s.kernel);
  }
  Factor Output(const ConvolutionShape& s, const Real* y) const {
    return Factor(precision_, y,
                  s.batch * s.out_channels * s.out_height * s.out_width);
  }

  const Precision precision_;
  const std::unique_ptr<Device> cpu_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LinearRunner>> LinearRunner::Create(
    Precision precision) {
  return std::make_unique<EmulatedLinearRunner>(precision);
}

std::unique_ptr<ConvolutionRunner> ConvolutionRunner::Create(
    Precision precision) {
  return std::make_unique<EmulatedConvolutionRunner>(precision);
}

}  // namespace tributary::cuda
