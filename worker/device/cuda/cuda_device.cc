// Device on a GPU: each operation is a function of this folder, here put
// together.
#include "worker/device/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker/device/cuda/attention.h"
#include "worker/device/cuda/batch_norm.h"
#include "worker/device/cuda/bias.h"
#include "worker/device/cuda/convolution.h"
#include "worker/device/cuda/cuda_copies.h"
#include "worker/device/cuda/cuda_status.h"
#include "worker/device/cuda/elementwise.h"
#include "worker/device/cuda/embedding.h"
#include "worker/device/cuda/linear.h"
#include "worker/device/cuda/loss.h"
#include "worker/device/cuda/normalization.h"
#include "worker/device/cuda/pooling.h"
#include "worker/device/cuda/scratch.h"
#include "worker/device/cuda/stream.h"

namespace tributary {
namespace {

using cuda::Scratch;
using cuda::Stream;
using cuda::ToStatus;

// Waits until the GPU has done all that was queued, so that nothing queued
// before uses the memory after it.
void FreeMemory(void* memory) { cudaFree(memory); }

absl::Status NoMemory(size_t bytes) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return absl::ResourceExhaustedError(
      absl::StrCat("no ", bytes, " bytes of GPU memory: ", free, " of ", total,
                   " bytes are free"));
}

// Whether a copy from it is left to the GPU, to be made at any time.
bool IsPinned(const void* memory) {
  cudaPointerAttributes attributes = {};
  return cudaPointerGetAttributes(&attributes, memory) == cudaSuccess &&
         attributes.type != cudaMemoryTypeUnregistered;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(std::unique_ptr<Stream> stream,
             std::unique_ptr<cuda::LinearRunner> linear, std::string name,
             std::string bus_id)
      : stream_(std::move(stream)),
        name_(std::move(name)),
        bus_id_(std::move(bus_id)),
        linear_(std::move(linear)),
        convolution_(cuda::ConvolutionRunner::Create()) {}

  ~CudaDevice() override { stream_->Activate(); }

  absl::StatusOr<Memory> Allocate(size_t bytes) override {
    Stream& stream = Current();
    void* memory = nullptr;
    // CUDA gives null for 0 bytes.
    const cudaError_t error = cudaMalloc(&memory, std::max<size_t>(bytes, 1));
    if (error == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // Not an error of a later call.
      return NoMemory(bytes);
    }
    TRIBUTARY_RETURN_IF_ERROR(ToStatus(error, "cudaMalloc"));
    Memory owned(memory, &FreeMemory);
    // Waits: other instances may use it at once.
    TRIBUTARY_RETURN_IF_ERROR(ToStatus(
        cudaMemsetAsync(memory, 0, bytes, stream.get()), "cudaMemsetAsync"));
    stream.Wait();
    return owned;
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    Stream& stream = Current();
    stream.Check(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream.get()),
        "CopyFromHost");
    if (IsPinned(from)) stream.Wait();
  }
  void CopyToHost(void* to, const void* from, size_t bytes) override {
    Stream& stream = Current();
    if (bytes > 0) {
      stream.Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost,
                                   stream.get()),
                   "CopyToHost");
    }
    stream.Wait();
  }
  void Zero(float* to, int64_t count) override {
    Stream& stream = Current();
    stream.Check(
        cudaMemsetAsync(to, 0, static_cast<size_t>(count) * sizeof(float),
                        stream.get()),
        "Zero");
  }
  void Synchronize() override { Current().Wait(); }

  bool has_own_memory() const override { return true; }
  std::string name() const override { return name_; }
  std::string bus_id() const override { return bus_id_; }
  std::optional<int64_t> AvailableMemoryBytes() const override {
    size_t free = 0, total = 0;
    if (cudaSetDevice(stream_->ordinal()) != cudaSuccess ||
        cudaMemGetInfo(&free, &total) != cudaSuccess) {
      cudaGetLastError();  // Not an error of a later call.
      return std::nullopt;
    }
    return static_cast<int64_t>(free);
  }
  absl::StatusOr<std::unique_ptr<CopyStream>> CreateCopyStream() override {
    return cuda::CudaCopyStream::Create(stream_->ordinal());
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return cuda::CudaEvent::Create(stream_->ordinal());
  }
  std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes) override {
    // From any thread, whose errors are not the stream's.
    if (cudaSetDevice(stream_->ordinal()) != cudaSuccess) return nullptr;
    return cuda::PinHostMemory(memory, bytes);
  }
  void Record(Event* event) override {
    static_cast<cuda::CudaEvent*>(event)->RecordOn(Current());
  }
  void Await(const Event& event) override {
    static_cast<const cuda::CudaEvent&>(event).DelayWorkOf(Current());
  }

  void Add(int64_t count, const float* x, float* y) override {
    cuda::Add(Current(), count, x, y);
  }

  void LinearForward(const LinearShape& shape, const float* x,
                     const float* weight, const float* bias,
                     float* y) override {
    linear_->Forward(Current(), scratch_, shape, x, weight, bias, y);
  }
  void LinearBackwardInput(const LinearShape& shape, const float* dy,
                           const float* weight, bool accumulate,
                           float* dx) override {
    linear_->BackwardInput(Current(), scratch_, shape, dy, weight, accumulate,
                           dx);
  }
  void LinearBackwardWeight(const LinearShape& shape, const float* x,
                            const float* dy, bool accumulate, float* dweight,
                            float* dbias) override {
    Stream& stream = Current();
    linear_->BackwardWeight(stream, scratch_, shape, x, dy, accumulate,
                            dweight);
    if (dbias == nullptr) return;
    cuda::ColumnSums(stream, scratch_, shape.rows, shape.outputs, dy, dbias);
  }

  void ConvolutionForward(const ConvolutionShape& shape, const float* x,
                          const float* weight, const float* bias,
                          float* y) override {
    Stream& stream = Current();
    convolution_->Forward(stream, scratch_, shape, x, weight, y);
    if (bias == nullptr) return;
    cuda::AddToPlanes(stream, shape.batch, shape.out_channels,
                      shape.out_height * shape.out_width, bias, y);
  }
  void ConvolutionBackwardInput(const ConvolutionShape& shape, const float* dy,
                                const float* weight, float* dx) override {
    convolution_->BackwardInput(Current(), scratch_, shape, dy, weight, dx);
  }
  void ConvolutionBackwardWeight(const ConvolutionShape& shape, const float* x,
                                 const float* dy, float* dweight,
                                 float* dbias) override {
    Stream& stream = Current();
    convolution_->BackwardWeight(stream, scratch_, shape, x, dy, dweight);
    if (dbias == nullptr) return;
    cuda::ChannelSums(stream, scratch_, shape.batch, shape.out_channels,
                      shape.out_height * shape.out_width, dy, dbias);
  }
  void MaxPoolForward(const PoolShape& shape, const float* x, float* y,
                      int32_t* argmax) override {
    cuda::MaxPoolForward(Current(), shape, x, y, argmax);
  }
  void MaxPoolBackward(const PoolShape& shape, const float* dy,
                       const int32_t* argmax, float* dx) override {
    cuda::MaxPoolBackward(Current(), shape, dy, argmax, dx);
  }
  void AveragePoolForward(const PoolShape& shape, const float* x,
                          float* y) override {
    cuda::AveragePoolForward(Current(), shape, x, y);
  }
  void AveragePoolBackward(const PoolShape& shape, const float* dy,
                           float* dx) override {
    cuda::AveragePoolBackward(Current(), shape, dy, dx);
  }
  void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const float* x,
                                float* y) override {
    cuda::GlobalAveragePoolForward(Current(), planes, pixels, x, y);
  }
  void GlobalAveragePoolBackward(int64_t planes, int64_t pixels,
                                 const float* dy, float* dx) override {
    cuda::GlobalAveragePoolBackward(Current(), planes, pixels, dy, dx);
  }

  void ReluForward(int64_t count, const float* x, float* y) override {
    cuda::ReluForward(Current(), count, x, y);
  }
  void ReluBackward(int64_t count, const float* y, const float* dy,
                    float* dx) override {
    cuda::ReluBackward(Current(), count, y, dy, dx);
  }
  void GeluForward(int64_t count, const float* x, float* y) override {
    cuda::GeluForward(Current(), count, x, y);
  }
  void GeluBackward(int64_t count, const float* x, const float* dy,
                    float* dx) override {
    cuda::GeluBackward(Current(), count, x, dy, dx);
  }
  void Dropout(int64_t count, const RandomStream& stream, float rate,
               const float* x, float* y) override {
    cuda::Dropout(Current(), count, stream, rate, x, y);
  }

  void LayerNormForward(int64_t rows, int64_t width, const float* x,
                        const float* scale, const float* shift, float* y,
                        float* mean, float* inverse_deviation) override {
    cuda::LayerNormForward(Current(), rows, width, x, scale, shift, y, mean,
                           inverse_deviation);
  }
  void LayerNormBackward(int64_t rows, int64_t width, const float* x,
                         const float* scale, const float* mean,
                         const float* inverse_deviation, const float* dy,
                         bool accumulate, float* dx, float* dscale,
                         float* dshift) override {
    cuda::LayerNormBackward(Current(), scratch_, rows, width, x, scale, mean,
                            inverse_deviation, dy,
                            {accumulate, dx, dscale, dshift});
  }

  void BatchNormForward(const BatchNormShape& shape, const float* x,
                        const float* scale, const float* shift,
                        const float* residual, float* y, float* mean,
                        float* variance) override {
    cuda::BatchNormForward(Current(), shape, x, scale, shift, residual, y, mean,
                           variance);
  }
  void BatchNormEvaluate(const BatchNormShape& shape, const float* x,
                         const float* scale, const float* shift,
                         const float* mean, const float* variance,
                         const float* residual, float* y) override {
    cuda::BatchNormEvaluate(Current(), shape, x, scale, shift, mean, variance,
                            residual, y);
  }
  void BatchNormBackward(const BatchNormShape& shape, const float* x,
                         const float* scale, const float* mean,
                         const float* variance, const float* y, const float* dy,
                         float* dx, float* dscale, float* dshift,
                         float* dresidual) override {
    cuda::BatchNormBackward(Current(), shape, x, scale, mean, variance, y, dy,
                            {dx, dscale, dshift, dresidual});
  }
  void BatchNormStatisticsGradient(int64_t channels, int64_t observations,
                                   int64_t weight, const float* mean,
                                   const float* variance,
                                   const float* running_mean,
                                   const float* running_variance, float* dmean,
                                   float* dvariance) override {
    cuda::BatchNormStatisticsGradient(
        Current(), channels, observations, weight, {mean, variance},
        {running_mean, running_variance}, dmean, dvariance);
  }

  void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                        const int32_t* tokens, const float* token_table,
                        const float* position_table, float* y) override {
    cuda::EmbeddingForward(Current(), batch, time, width, tokens, token_table,
                           position_table, y);
  }
  void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                         int64_t vocabulary, const int32_t* tokens,
                         const float* dy, bool accumulate, float* dtoken_table,
                         float* dposition_table) override {
    cuda::EmbeddingBackward(Current(), scratch_, batch, time, width, vocabulary,
                            tokens, dy,
                            {accumulate, dtoken_table, dposition_table});
  }

  int64_t SavedAttentionSize(const AttentionShape& s) const override {
    return s.batch * s.heads * s.time;
  }
  void AttentionForward(const AttentionShape& shape, const float* qkv,
                        const RandomStream& stream, float rate, float* y,
                        float* saved) override {
    cuda::AttentionForward(Current(), shape, qkv, {stream, rate}, y, saved);
  }
  void AttentionBackward(const AttentionShape& shape, const float* qkv,
                         const float* y, const float* saved, const float* dy,
                         const RandomStream& stream, float rate,
                         float* dqkv) override {
    cuda::AttentionBackward(Current(), scratch_, shape, qkv, y, saved, dy,
                            {stream, rate}, dqkv);
  }

  Loss SoftmaxCrossEntropy(int64_t rows, int64_t classes, const float* logits,
                           const int32_t* labels, float* dlogits) override {
    return losses_.SoftmaxCrossEntropy(Current(), rows, classes, logits, labels,
                                       dlogits);
  }
  Loss MeanSquaredError(int64_t rows, int64_t width, const float* x,
                        const float* target, float* dx) override {
    return losses_.MeanSquaredError(Current(), rows, width, x, target, dx);
  }

 private:
  // The stream, with its GPU made the calling thread's: an instance may move
  // between threads.
  Stream& Current() {
    stream_->Activate();
    return *stream_;
  }

  const std::unique_ptr<Stream> stream_;
  const std::string name_;
  const std::string bus_id_;
  Scratch scratch_{Scratch::Place::kDevice};
  const std::unique_ptr<cuda::LinearRunner> linear_;
  const std::unique_ptr<cuda::ConvolutionRunner> convolution_;
  cuda::LossRunner losses_;
};

}  // namespace

absl::StatusOr<int> CountCudaDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "this machine has no GPU that CUDA can use: ",
        cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error)));
  }
  return count;
}

absl::StatusOr<std::string> CudaBusId(int ordinal) {
  char bus_id[32];
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaDeviceGetPCIBusId(bus_id, sizeof(bus_id), ordinal),
               absl::StrCat("cannot ask where cuda:", ordinal, " is")));
  return absl::AsciiStrToLower(bus_id);
}

void LeaveCuda(int ordinal) {
  if (cudaSetDevice(ordinal) == cudaSuccess) cudaDeviceReset();
  cudaGetLastError();
}

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int ordinal) {
  TRIBUTARY_ASSIGN_OR_RETURN(const int count, CountCudaDevices());
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(absl::StrCat("there is no cuda:", ordinal,
                                            "; the last GPU of this machine is "
                                            "cuda:",
                                            count - 1));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cuda::FindKernels(),
               absl::StrCat("this build has no code for cuda:", ordinal)));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<cuda::LinearRunner> linear,
                             cuda::LinearRunner::Create());
  cudaDeviceProp properties;
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaGetDeviceProperties(&properties, ordinal),
               absl::StrCat("cannot ask cuda:", ordinal, " what it is")));
  TRIBUTARY_ASSIGN_OR_RETURN(std::string bus_id, CudaBusId(ordinal));
  return std::make_unique<CudaDevice>(std::move(stream), std::move(linear),
                                      properties.name, std::move(bus_id));
}

}  // namespace tributary
