// The reference implementation of Device: each operation is a function of
// worker/device/cpu, here put together.
#include <cstring>

#include "worker/device/cpu/attention.h"
#include "worker/device/cpu/batch_norm.h"
#include "worker/device/cpu/convolution.h"
#include "worker/device/cpu/elementwise.h"
#include "worker/device/cpu/embedding.h"
#include "worker/device/cpu/linear.h"
#include "worker/device/cpu/loss.h"
#include "worker/device/cpu/memory.h"
#include "worker/device/cpu/normalization.h"
#include "worker/device/cpu/pooling.h"
#include "worker/device/cpu/scratch.h"
#include "worker/device/device.h"

namespace tributary {
namespace {

class CpuDevice final : public Device {
 public:
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

  void Add(int64_t count, const float* x, float* y) override {
    cpu::Add(count, x, y);
  }

  void LinearForward(const LinearShape& shape, const float* x,
                     const float* weight, const float* bias,
                     float* y) override {
    cpu::LinearForward(shape, x, weight, bias, scratch_, y);
  }
  void LinearBackwardInput(const LinearShape& shape, const float* dy,
                           const float* weight, bool accumulate,
                           float* dx) override {
    cpu::LinearBackwardInput(shape, dy, weight, accumulate, dx);
  }
  void LinearBackwardWeight(const LinearShape& shape, const float* x,
                            const float* dy, bool accumulate, float* dweight,
                            float* dbias) override {
    cpu::LinearBackwardWeight(shape, x, dy, accumulate, dweight, dbias);
  }

  void ConvolutionForward(const ConvolutionShape& shape, const float* x,
                          const float* weight, const float* bias,
                          float* y) override {
    convolution_.Forward(shape, x, weight, bias, y);
  }
  void ConvolutionBackwardInput(const ConvolutionShape& shape, const float* dy,
                                const float* weight, float* dx) override {
    convolution_.BackwardInput(shape, dy, weight, dx);
  }
  void ConvolutionBackwardWeight(const ConvolutionShape& shape, const float* x,
                                 const float* dy, float* dweight,
                                 float* dbias) override {
    convolution_.BackwardWeight(shape, x, dy, dweight, dbias);
  }
  void MaxPoolForward(const PoolShape& shape, const float* x, float* y,
                      int32_t* argmax) override {
    cpu::MaxPoolForward(shape, x, scratch_, y, argmax);
  }
  void MaxPoolBackward(const PoolShape& shape, const float* dy,
                       const int32_t* argmax, float* dx) override {
    cpu::MaxPoolBackward(shape, dy, argmax, scratch_, dx);
  }
  void AveragePoolForward(const PoolShape& shape, const float* x,
                          float* y) override {
    cpu::AveragePoolForward(shape, x, y);
  }
  void AveragePoolBackward(const PoolShape& shape, const float* dy,
                           float* dx) override {
    cpu::AveragePoolBackward(shape, dy, dx);
  }
  void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const float* x,
                                float* y) override {
    cpu::GlobalAveragePoolForward(planes, pixels, x, y);
  }
  void GlobalAveragePoolBackward(int64_t planes, int64_t pixels,
                                 const float* dy, float* dx) override {
    cpu::GlobalAveragePoolBackward(planes, pixels, dy, dx);
  }

  void ReluForward(int64_t count, const float* x, float* y) override {
    cpu::ReluForward(count, x, y);
  }
  void ReluBackward(int64_t count, const float* y, const float* dy,
                    float* dx) override {
    cpu::ReluBackward(count, y, dy, dx);
  }
  void GeluForward(int64_t count, const float* x, float* y) override {
    cpu::GeluForward(count, x, y);
  }
  void GeluBackward(int64_t count, const float* x, const float* dy,
                    float* dx) override {
    cpu::GeluBackward(count, x, dy, dx);
  }
  void Dropout(int64_t count, const RandomStream& stream, float rate,
               const float* x, float* y) override {
    cpu::Dropout(count, stream, /*first=*/0, rate, x, y);
  }

  void LayerNormForward(int64_t rows, int64_t width, const float* x,
                        const float* scale, const float* shift, float* y,
                        float* mean, float* inverse_deviation) override {
    cpu::LayerNormForward(rows, width, x, scale, shift, y, mean,
                          inverse_deviation);
  }
  void LayerNormBackward(int64_t rows, int64_t width, const float* x,
                         const float* scale, const float* mean,
                         const float* inverse_deviation, const float* dy,
                         bool accumulate, float* dx, float* dscale,
                         float* dshift) override {
    cpu::LayerNormBackward(rows, width, x, scale, mean, inverse_deviation, dy,
                           accumulate, dx, dscale, dshift);
  }

  void BatchNormForward(const BatchNormShape& shape, const float* x,
                        const float* scale, const float* shift,
                        const float* residual, float* y, float* mean,
                        float* variance) override {
    cpu::BatchNormForward(shape, x, scale, shift, residual, y, mean, variance);
  }
  void BatchNormEvaluate(const BatchNormShape& shape, const float* x,
                         const float* scale, const float* shift,
                         const float* mean, const float* variance,
                         const float* residual, float* y) override {
    cpu::BatchNormEvaluate(shape, x, scale, shift, mean, variance, residual, y);
  }
  void BatchNormBackward(const BatchNormShape& shape, const float* x,
                         const float* scale, const float* mean,
                         const float* variance, const float* y, const float* dy,
                         float* dx, float* dscale, float* dshift,
                         float* dresidual) override {
    cpu::BatchNormBackward(shape, x, scale, mean, variance, y, dy, dx, dscale,
                           dshift, dresidual);
  }
  void BatchNormStatisticsGradient(int64_t channels, int64_t observations,
                                   int64_t weight, const float* mean,
                                   const float* variance,
                                   const float* running_mean,
                                   const float* running_variance, float* dmean,
                                   float* dvariance) override {
    cpu::BatchNormStatisticsGradient(channels, observations, weight, mean,
                                     variance, running_mean, running_variance,
                                     dmean, dvariance);
  }

  void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                        const int32_t* tokens, const float* token_table,
                        const float* position_table, float* y) override {
    cpu::EmbeddingForward(batch, time, width, tokens, token_table,
                          position_table, y);
  }
  void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                         int64_t vocabulary, const int32_t* tokens,
                         const float* dy, bool accumulate, float* dtoken_table,
                         float* dposition_table) override {
    cpu::EmbeddingBackward(batch, time, width, vocabulary, tokens, dy,
                           accumulate, dtoken_table, dposition_table);
  }

  int64_t SavedAttentionSize(const AttentionShape& s) const override {
    return s.batch * s.heads * s.time;
  }
  void AttentionForward(const AttentionShape& shape, const float* qkv,
                        const RandomStream& stream, float rate, float* y,
                        float* saved) override {
    cpu::AttentionForward(shape, qkv, stream, rate, scratch_, y, saved);
  }
  void AttentionBackward(const AttentionShape& shape, const float* qkv,
                         const float* y, const float* saved, const float* dy,
                         const RandomStream& stream, float rate,
                         float* dqkv) override {
    cpu::AttentionBackward(shape, qkv, y, saved, dy, stream, rate, scratch_,
                           dqkv);
  }

  Loss SoftmaxCrossEntropy(int64_t rows, int64_t classes, const float* logits,
                           const int32_t* labels, float* dlogits) override {
    return cpu::SoftmaxCrossEntropy(rows, classes, logits, labels, dlogits);
  }
  Loss MeanSquaredError(int64_t rows, int64_t width, const float* x,
                        const float* target, float* dx) override {
    return cpu::MeanSquaredError(rows, width, x, target, dx);
  }

 private:
  cpu::Scratch scratch_;
  cpu::ConvolutionRunner convolution_;
};

}  // namespace

std::unique_ptr<Device> CreateCpuDevice() {
  return std::make_unique<CpuDevice>();
}

}  // namespace tributary
