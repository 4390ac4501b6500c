// Stand in for cuBLASLt and cuDNN: the CPU's own products and convolutions.
// The tests here are of our kernels and of how the device puts them together.
#include <memory>

#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/convolution.h"
#include "worker/device/cuda/linear.h"
#include "worker/device/device.h"

namespace tributary::cuda {
namespace {

// `work` is part of the stream's.
template <typename Work>
void Enqueue(Stream& stream, const Work& work) {
  emulated_gpu::Enqueue(stream.get(), [work] {
    const emulated_gpu::Running running;
    work();
    return true;
  });
}

class EmulatedLinearRunner final : public LinearRunner {
 public:
  explicit EmulatedLinearRunner(Precision precision)
      : cpu_(CreateCpuDevice(precision)) {}

  void Forward(Stream& stream, Scratch&, const LinearShape& shape,
               const Real* x, const Real* weight, const float* bias,
               Real* y) override {
    Enqueue(stream, [=] { cpu_->LinearForward(shape, x, weight, bias, y); });
  }
  void BackwardInput(Stream& stream, Scratch&, const LinearShape& shape,
                     const Real* dy, const Real* weight, bool accumulate,
                     Real* dx) override {
    Enqueue(stream, [=] {
      cpu_->LinearBackwardInput(shape, dy, weight, accumulate, dx);
    });
  }
  void BackwardWeight(Stream& stream, Scratch&, const LinearShape& shape,
                      const Real* x, const Real* dy, bool accumulate,
                      float* dweight) override {
    Enqueue(stream, [=] {
      cpu_->LinearBackwardWeight(shape, x, dy, accumulate, dweight,
                                 /*dbias=*/nullptr);
    });
  }

 private:
  const std::unique_ptr<Device> cpu_;
};

class EmulatedConvolutionRunner final : public ConvolutionRunner {
 public:
  explicit EmulatedConvolutionRunner(Precision precision)
      : cpu_(CreateCpuDevice(precision)) {}

  void Forward(Stream& stream, Scratch&, const ConvolutionShape& shape,
               const Real* x, const Real* weight, Real* y) override {
    Enqueue(stream, [=] {
      cpu_->ConvolutionForward(shape, x, weight, /*bias=*/nullptr, y);
    });
  }
  void BackwardInput(Stream& stream, Scratch&, const ConvolutionShape& shape,
                     const Real* dy, const Real* weight, Real* dx) override {
    Enqueue(stream,
            [=] { cpu_->ConvolutionBackwardInput(shape, dy, weight, dx); });
  }
  void BackwardWeight(Stream& stream, Scratch&, const ConvolutionShape& shape,
                      const Real* x, const Real* dy, float* dweight) override {
    Enqueue(stream, [=] {
      cpu_->ConvolutionBackwardWeight(shape, x, dy, dweight, /*dbias=*/nullptr);
    });
  }

 private:
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
