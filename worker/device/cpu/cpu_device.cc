// Reference implementation of Device. Combines the functions of
// worker/device/cpu.
#include <cstring>
#include <utility>

#include "common/numerics/half.h"
#include "worker/device/cpu/bfloat16_cpu_device.h"
#include "worker/device/cpu/kernels/attention.h"
#include "worker/device/cpu/kernels/batch_norm.h"
#include "worker/device/cpu/kernels/convolution.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/embedding.h"
#include "worker/device/cpu/kernels/linear.h"
#include "worker/device/cpu/kernels/loss.h"
#include "worker/device/cpu/kernels/memory.h"
#include "worker/device/cpu/kernels/normalization.h"
#include "worker/device/cpu/kernels/pooling.h"
#include "worker/device/cpu/kernels/scratch.h"
#include "worker/device/cpu/kernels/winograd.h"
#include "worker/device/device.h"

namespace tributary {
namespace {

const float* Typed(const Real* x) { return reinterpret_cast<const float*>(x); }
float* Typed(Real* x) { return reinterpret_cast<float*>(x); }

class CpuDevice final : public Device {
 public:
  Precision precision() const override { return Precision::kFloat32; }

  absl::StatusOr<Memory> Allocate(size_t bytes) override {
    return cpu::AllocateHostMemory(bytes);
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void CopyToHost(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Zero(float* to, int64_t count) override {
    if (count > 0) std::memset(to, 0, count * sizeof(float));
  }
  void Synchronize() override {}

  void Round(int64_t count, const float* from, Real* to) override {
    std::memcpy(to, from, count * sizeof(float));
  }
  void Copy(int64_t count, const Real* x, Real* y) override {
    std::memcpy(y, x, count * sizeof(float));
  }
  void Add(int64_t count, const Real* x, Real* y) override {
    cpu::Add(count, Typed(x), Typed(y));
  }
  void KeepNode(WireDtype dtype, int64_t count, const float* x,
                float* sum) override {
    RoundedCopy(dtype, x, sum, count);
  }
  void AddToNode(WireDtype dtype, int64_t count, const float* x,
                 float* sum) override {
    RoundAndAdd(dtype, x, sum, count);
  }

  void LinearForward(const LinearShape& shape, const Real* x,
                     const Real* weight, const float* bias, Real* y) override {
    cpu::LinearForward(shape, Typed(x), Typed(weight), bias, scratch_,
                       Typed(y));
  }
  void LinearBackwardInput(const LinearShape& shape, const Real* dy,
                           const Real* weight, bool accumulate,
                           Real* dx) override {
    cpu::LinearBackwardInput(shape, Typed(dy), Typed(weight), accumulate,
                             Typed(dx));
  }
  void LinearBackwardWeight(const LinearShape& shape, const Real* x,
                            const Real* dy, bool accumulate, float* dweight,
                            float* dbias) override {
    cpu::LinearBackwardWeight(shape, Typed(x), Typed(dy), accumulate, dweight,
                              dbias);
  }

  void ConvolutionForward(const ConvolutionShape& shape, const Real* x,
                          const Real* weight, const float* bias,
                          Real* y) override {
    if (cpu::SuitsWinograd(shape)) {
      cpu::WinogradForward(shape, Typed(x), Typed(weight), bias, scratch_,
                           Typed(y));
    } else {
      convolution_.Forward(shape, Typed(x), Typed(weight), bias, Typed(y));
    }
  }
  void ConvolutionBackwardInput(const ConvolutionShape& shape, const Real* dy,
                                const Real* weight, Real* dx) override {
    if (cpu::SuitsWinograd(shape)) {
      cpu::WinogradBackwardInput(shape, Typed(dy), Typed(weight), scratch_,
                                 Typed(dx));
    } else {
      convolution_.BackwardInput(shape, Typed(dy), Typed(weight), Typed(dx));
    }
  }
  void ConvolutionBackwardWeight(const ConvolutionShape& shape, const Real* x,
                                 const Real* dy, float* dweight,
                                 float* dbias) override {
    convolution_.BackwardWeight(shape, Typed(x), Typed(dy), dweight, dbias);
  }
  void MaxPoolForward(const PoolShape& shape, const Real* x, Real* y,
                      int32_t* argmax) override {
    cpu::MaxPoolForward(shape, Typed(x), scratch_, Typed(y), argmax);
  }
  void MaxPoolBackward(const PoolShape& shape, const Real* dy,
                       const int32_t* argmax, Real* dx) override {
    cpu::MaxPoolBackward(shape, Typed(dy), argmax, scratch_, Typed(dx));
  }
  void AveragePoolForward(const PoolShape& shape, const Real* x,
                          Real* y) override {
    cpu::AveragePoolForward(shape, Typed(x), Typed(y));
  }
  void AveragePoolBackward(const PoolShape& shape, const Real* dy,
                           Real* dx) override {
    cpu::AveragePoolBackward(shape, Typed(dy), Typed(dx));
  }
  void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const Real* x,
                                Real* y) override {
    cpu::GlobalAveragePoolForward(planes, pixels, Typed(x), Typed(y));
  }
  void GlobalAveragePoolBackward(int64_t planes, int64_t pixels, const Real* dy,
                                 Real* dx) override {
    cpu::GlobalAveragePoolBackward(planes, pixels, Typed(dy), Typed(dx));
  }

  void ReluForward(int64_t count, const Real* x, Real* y) override {
    cpu::ReluForward(count, Typed(x), Typed(y));
  }
  void ReluBackward(int64_t count, const Real* y, const Real* dy,
                    Real* dx) override {
    cpu::ReluBackward(count, Typed(y), Typed(dy), Typed(dx));
  }
  void GeluForward(int64_t count, const Real* x, Real* y) override {
    cpu::GeluForward(count, Typed(x), Typed(y));
  }
  void GeluBackward(int64_t count, const Real* x, const Real* dy,
                    Real* dx) override {
    cpu::GeluBackward(count, Typed(x), Typed(dy), Typed(dx));
  }
  void SetRandomBase(const RandomBase& base) override { random_base_ = base; }

  void Dropout(int64_t count, const RandomStream& stream, float rate,
               const Real* x, Real* y) override {
    cpu::Dropout(count, random_base_.Of(stream), /*first=*/0, rate, Typed(x),
                 Typed(y));
  }

  void LayerNormForward(int64_t rows, int64_t width, const Real* x,
                        const float* scale, const float* shift, Real* y,
                        float* mean, float* inverse_deviation) override {
    cpu::LayerNormForward(rows, width, Typed(x), scale, shift, Typed(y), mean,
                          inverse_deviation);
  }
  void LayerNormBackward(int64_t rows, int64_t width, const Real* x,
                         const float* scale, const float* mean,
                         const float* inverse_deviation, const Real* dy,
                         bool accumulate, Real* dx, float* dscale,
                         float* dshift) override {
    cpu::LayerNormBackward(rows, width, Typed(x), scale, mean,
                           inverse_deviation, Typed(dy), accumulate, Typed(dx),
                           dscale, dshift);
  }

  void BatchNormForward(const BatchNormShape& shape, const Real* x,
                        const float* scale, const float* shift,
                        const Real* residual, Real* y, float* mean,
                        float* variance) override {
    cpu::BatchNormForward(shape, Typed(x), scale, shift, Typed(residual),
                          Typed(y), mean, variance);
  }
  void BatchNormEvaluate(const BatchNormShape& shape, const Real* x,
                         const float* scale, const float* shift,
                         const float* mean, const float* variance,
                         const Real* residual, Real* y) override {
    cpu::BatchNormEvaluate(shape, Typed(x), scale, shift, mean, variance,
                           Typed(residual), Typed(y));
  }
  void BatchNormBackward(const BatchNormShape& shape, const Real* x,
                         const float* scale, const float* mean,
                         const float* variance, const Real* y, const Real* dy,
                         Real* dx, float* dscale, float* dshift,
                         Real* dresidual) override {
    cpu::BatchNormBackward(shape, Typed(x), scale, mean, variance, Typed(y),
                           Typed(dy), Typed(dx), dscale, dshift,
                           Typed(dresidual));
  }
  void BatchNormStatisticsGradient(int64_t channels, int64_t observations,
                                   int64_t sample_count, const float* mean,
                                   const float* variance,
                                   const float* running_mean,
                                   const float* running_variance, float* dmean,
                                   float* dvariance) override {
    cpu::BatchNormStatisticsGradient(channels, observations, sample_count, mean,
                                     variance, running_mean, running_variance,
                                     dmean, dvariance);
  }

  void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                        const int32_t* tokens, const float* token_table,
                        const float* position_table, Real* y) override {
    cpu::EmbeddingForward(batch, time, width, tokens, token_table,
                          position_table, Typed(y));
  }
  void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                         int64_t vocabulary, const int32_t* tokens,
                         const Real* dy, bool accumulate, float* dtoken_table,
                         float* dposition_table) override {
    cpu::EmbeddingBackward(batch, time, width, vocabulary, tokens, Typed(dy),
                           accumulate, dtoken_table, dposition_table);
  }

  int64_t SavedAttentionSize(const AttentionShape& s) const override {
    return s.batch * s.heads * s.time;
  }
  void AttentionForward(const AttentionShape& shape, const Real* qkv,
                        const RandomStream& stream, float rate, Real* y,
                        float* saved) override {
    cpu::AttentionForward(shape, /*first_sequence=*/0, Typed(qkv),
                          random_base_.Of(stream), rate, scratch_, Typed(y),
                          saved);
  }
  void AttentionBackward(const AttentionShape& shape, const Real* qkv,
                         const Real* y, const float* saved, const Real* dy,
                         const RandomStream& stream, float rate,
                         Real* dqkv) override {
    cpu::AttentionBackward(shape, /*first_sequence=*/0, Typed(qkv), Typed(y),
                           saved, Typed(dy), random_base_.Of(stream), rate,
                           scratch_, Typed(dqkv));
  }

  void BeginSoftmaxCrossEntropy(int64_t rows, int64_t classes,
                                const Real* logits, const int32_t* labels,
                                Real* dlogits) override {
    loss_ = cpu::SoftmaxCrossEntropy(rows, classes, Typed(logits), labels,
                                     Typed(dlogits));
  }
  void BeginMeanSquaredError(int64_t rows, int64_t width, const Real* x,
                             const float* target, Real* dx) override {
    loss_ = cpu::MeanSquaredError(rows, width, Typed(x), target, Typed(dx));
  }
  Loss AwaitLoss() override { return loss_; }

 private:
  cpu::Scratch scratch_;
  cpu::ConvolutionRunner convolution_{Precision::kFloat32};
  RandomBase random_base_;
  Loss loss_;
};

}  // namespace

std::unique_ptr<Device> CreateCpuDevice(Precision precision) {
  auto device = std::make_unique<CpuDevice>();
  if (precision != Precision::kBfloat16) return device;
  return CreateBfloat16CpuDevice(std::move(device));
}

}  // namespace tributary
