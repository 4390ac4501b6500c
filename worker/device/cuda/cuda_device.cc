// Device for GPUs. Combines the functions of this folder.
#include "worker/device/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/node_format.h"
#include "common/cuda/node_sums.h"
#include "common/cuda/pinned_memory.h"
#include "common/cuda/stream.h"
#include "worker/device/cuda/convolution.h"
#include "worker/device/cuda/cuda_copies.h"
#include "worker/device/cuda/cuda_graph.h"
#include "worker/device/cuda/cuda_memory.h"
#include "worker/device/cuda/kernels/attention.h"
#include "worker/device/cuda/kernels/batch_norm.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/bias.h"
#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/embedding.h"
#include "worker/device/cuda/kernels/loss.h"
#include "worker/device/cuda/kernels/normalization.h"
#include "worker/device/cuda/kernels/pooling.h"
#include "worker/device/cuda/kernels/scratch.h"
#include "worker/device/cuda/linear.h"

namespace tributary {
namespace {

using cuda::Scratch;
using cuda::Stream;
using cuda::ToStatus;

// T is what Real stands for.
template <typename T>
class CudaDevice final : public Device {
 public:
  CudaDevice(std::unique_ptr<Stream> stream,
             std::unique_ptr<cuda::CudaEvent> loss_made,
             std::unique_ptr<cuda::LinearRunner> linear,
             std::unique_ptr<cuda::ConvolutionRunner> convolution,
             std::string name, std::string bus_id)
      : stream_(std::move(stream)),
        name_(std::move(name)),
        bus_id_(std::move(bus_id)),
        loss_made_(std::move(loss_made)),
        linear_(std::move(linear)),
        convolution_(std::move(convolution)) {}

  ~CudaDevice() override { stream_->Activate(); }

  Precision precision() const override { return kPrecision; }

  absl::StatusOr<Memory> Allocate(size_t bytes) override {
    return cuda::AllocateMemory(Current(), bytes);
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    Stream& stream = Current();
    stream.Check(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream.get()),
        "CopyFromHost");
    // CUDA may read `from` later, even if it is pageable.
    stream.Wait();
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
    return cuda::FreeMemoryBytes(stream_->ordinal());
  }
  absl::StatusOr<std::unique_ptr<CopyStream>> CreateCopyStream() override {
    return cuda::CudaCopyStream::Create(stream_->ordinal());
  }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent() override {
    return cuda::CudaEvent::Create(stream_->ordinal());
  }
  std::shared_ptr<void> PinHostMemory(void* memory, size_t bytes) override {
    // May run on any thread, so errors are not recorded in the stream.
    return cuda::PinHostMemory(stream_->ordinal(), memory, bytes);
  }
  void Record(Event* event) override {
    static_cast<cuda::CudaEvent*>(event)->RecordOn(Current());
  }
  void Await(const Event& event) override {
    static_cast<const cuda::CudaEvent&>(event).DelayWorkOf(Current());
  }

  bool captures() const override { return true; }
  absl::Status BeginCapture() override {
    return cuda::CudaGraph::Begin(Current());
  }
  absl::StatusOr<std::unique_ptr<CapturedWork>> EndCapture() override {
    return cuda::CudaGraph::End(Current(), Growths());
  }
  bool Launch(const CapturedWork& work) override {
    const auto& graph = static_cast<const cuda::CudaGraph&>(work);
    if (graph.growths() != Growths()) return false;
    graph.LaunchOn(Current());
    return true;
  }

  // Must be called before the first operation that draws random numbers.
  absl::Status AllocateRandomBase() {
    TRIBUTARY_ASSIGN_OR_RETURN(random_base_, Allocate(sizeof(RandomBase)));
    return absl::OkStatus();
  }
  void SetRandomBase(const RandomBase& base) override {
    cuda::SetRandomBase(Current(), base,
                        static_cast<RandomBase*>(random_base_.get()));
  }

  void Round(int64_t count, const float* from, Real* to) override {
    cuda::Convert(Current(), count, from, Typed(to));
  }
  void Copy(int64_t count, const Real* x, Real* y) override {
    Stream& stream = Current();
    stream.Check(cudaMemcpyAsync(y, x, static_cast<size_t>(count) * sizeof(T),
                                 cudaMemcpyDeviceToDevice, stream.get()),
                 "Copy");
  }
  void Add(int64_t count, const Real* x, Real* y) override {
    cuda::Add(Current(), count, Typed(x), Typed(y));
  }
  void KeepNode(WireDtype dtype, int64_t count, const float* x,
                float* sum) override {
    cuda::RoundNode(Current(), cuda::NodeFormatOf(dtype), count, x, sum);
  }
  void AddToNode(WireDtype dtype, int64_t count, const float* x,
                 float* sum) override {
    cuda::AddNode(Current(), cuda::NodeFormatOf(dtype), count, x, sum);
  }

  void LinearForward(const LinearShape& shape, const Real* x,
                     const Real* weight, const float* bias, Real* y) override {
    linear_->Forward(Current(), scratch_, shape, x, weight, bias, y);
  }
  void LinearBackwardInput(const LinearShape& shape, const Real* dy,
                           const Real* weight, bool accumulate,
                           Real* dx) override {
    linear_->BackwardInput(Current(), scratch_, shape, dy, weight, accumulate,
                           dx);
  }
  void LinearGeluForward(const LinearShape& shape, const Real* x,
                         const Real* weight, const float* bias, Real* z,
                         Real* y) override {
    if (linear_->GeluForward(Current(), scratch_, shape, x, weight, bias, z,
                             y)) {
      return;
    }
    Device::LinearGeluForward(shape, x, weight, bias, z, y);
  }
  void LinearGeluBackwardInput(const LinearShape& shape, const Real* dy,
                               const Real* weight, const Real* z,
                               Real* dz) override {
    if (linear_->GeluBackwardInput(Current(), scratch_, shape, dy, weight, z,
                                   dz)) {
      return;
    }
    Device::LinearGeluBackwardInput(shape, dy, weight, z, dz);
  }
  void LinearBackwardWeight(const LinearShape& shape, const Real* x,
                            const Real* dy, bool accumulate, float* dweight,
                            float* dbias) override {
    Stream& stream = Current();
    linear_->BackwardWeight(stream, scratch_, shape, x, dy, accumulate,
                            dweight);
    if (dbias == nullptr) return;
    cuda::ColumnSums(stream, scratch_, shape.rows, shape.outputs, Typed(dy),
                     dbias);
  }

  void ConvolutionForward(const ConvolutionShape& shape, const Real* x,
                          const Real* weight, const float* bias,
                          Real* y) override {
    Stream& stream = Current();
    convolution_->Forward(stream, scratch_, shape, x, weight, y);
    if (bias == nullptr) return;
    cuda::AddToPlanes(stream, shape.batch, shape.out_channels,
                      shape.out_height * shape.out_width, bias, Typed(y));
  }
  void ConvolutionBackwardInput(const ConvolutionShape& shape, const Real* dy,
                                const Real* weight, Real* dx) override {
    convolution_->BackwardInput(Current(), scratch_, shape, dy, weight, dx);
  }
  void ConvolutionBackwardWeight(const ConvolutionShape& shape, const Real* x,
                                 const Real* dy, float* dweight,
                                 float* dbias) override {
    Stream& stream = Current();
    convolution_->BackwardWeight(stream, scratch_, shape, x, dy, dweight);
    if (dbias == nullptr) return;
    cuda::ChannelSums(stream, scratch_, shape.batch, shape.out_channels,
                      shape.out_height * shape.out_width, Typed(dy), dbias);
  }
  void MaxPoolForward(const PoolShape& shape, const Real* x, Real* y,
                      int32_t* argmax) override {
    cuda::MaxPoolForward(Current(), shape, Typed(x), Typed(y), argmax);
  }
  void MaxPoolBackward(const PoolShape& shape, const Real* dy,
                       const int32_t* argmax, Real* dx) override {
    cuda::MaxPoolBackward(Current(), shape, Typed(dy), argmax, Typed(dx));
  }
  void AveragePoolForward(const PoolShape& shape, const Real* x,
                          Real* y) override {
    cuda::AveragePoolForward(Current(), shape, Typed(x), Typed(y));
  }
  void AveragePoolBackward(const PoolShape& shape, const Real* dy,
                           Real* dx) override {
    cuda::AveragePoolBackward(Current(), shape, Typed(dy), Typed(dx));
  }
  void GlobalAveragePoolForward(int64_t planes, int64_t pixels, const Real* x,
                                Real* y) override {
    cuda::GlobalAveragePoolForward(Current(), planes, pixels, Typed(x),
                                   Typed(y));
  }
  void GlobalAveragePoolBackward(int64_t planes, int64_t pixels, const Real* dy,
                                 Real* dx) override {
    cuda::GlobalAveragePoolBackward(Current(), planes, pixels, Typed(dy),
                                    Typed(dx));
  }

  void ReluForward(int64_t count, const Real* x, Real* y) override {
    cuda::ReluForward(Current(), count, Typed(x), Typed(y));
  }
  void ReluBackward(int64_t count, const Real* y, const Real* dy,
                    Real* dx) override {
    cuda::ReluBackward(Current(), count, Typed(y), Typed(dy), Typed(dx));
  }
  void GeluForward(int64_t count, const Real* x, Real* y) override {
    cuda::GeluForward(Current(), count, Typed(x), Typed(y));
  }
  void GeluBackward(int64_t count, const Real* x, const Real* dy,
                    Real* dx) override {
    cuda::GeluBackward(Current(), count, Typed(x), Typed(dy), Typed(dx));
  }
  void Dropout(int64_t count, const RandomStream& stream, float rate,
               const Real* x, Real* y) override {
    cuda::Dropout(Current(), count, stream, Base(), rate, Typed(x), Typed(y));
  }

  void LayerNormForward(int64_t rows, int64_t width, const Real* x,
                        const float* scale, const float* shift, Real* y,
                        float* mean, float* inverse_deviation) override {
    cuda::LayerNormForward(Current(), rows, width, Typed(x), scale, shift,
                           Typed(y), mean, inverse_deviation);
  }
  void LayerNormBackward(int64_t rows, int64_t width, const Real* x,
                         const float* scale, const float* mean,
                         const float* inverse_deviation, const Real* dy,
                         bool accumulate, Real* dx, float* dscale,
                         float* dshift) override {
    cuda::LayerNormBackward(Current(), scratch_, rows, width, Typed(x), scale,
                            mean, inverse_deviation, Typed(dy),
                            {accumulate, Typed(dx), dscale, dshift});
  }

  void BatchNormForward(const BatchNormShape& shape, const Real* x,
                        const float* scale, const float* shift,
                        const Real* residual, Real* y, float* mean,
                        float* variance) override {
    cuda::BatchNormForward(Current(), shape, Typed(x), scale, shift,
                           Typed(residual), Typed(y), mean, variance);
  }
  void BatchNormEvaluate(const BatchNormShape& shape, const Real* x,
                         const float* scale, const float* shift,
                         const float* mean, const float* variance,
                         const Real* residual, Real* y) override {
    cuda::BatchNormEvaluate(Current(), shape, Typed(x), scale, shift, mean,
                            variance, Typed(residual), Typed(y));
  }
  void BatchNormBackward(const BatchNormShape& shape, const Real* x,
                         const float* scale, const float* mean,
                         const float* variance, const Real* y, const Real* dy,
                         Real* dx, float* dscale, float* dshift,
                         Real* dresidual) override {
    cuda::BatchNormBackward(Current(), shape, Typed(x), scale, mean, variance,
                            Typed(y), Typed(dy),
                            {Typed(dx), dscale, dshift, Typed(dresidual)});
  }
  void BatchNormStatisticsGradient(int64_t channels, int64_t observations,
                                   int64_t sample_count, const float* mean,
                                   const float* variance,
                                   const float* running_mean,
                                   const float* running_variance, float* dmean,
                                   float* dvariance) override {
    cuda::BatchNormStatisticsGradient(
        Current(), channels, observations, sample_count, {mean, variance},
        {running_mean, running_variance}, dmean, dvariance);
  }

  void EmbeddingForward(int64_t batch, int64_t time, int64_t width,
                        const int32_t* tokens, const float* token_table,
                        const float* position_table, Real* y) override {
    cuda::EmbeddingForward(Current(), batch, time, width, tokens, token_table,
                           position_table, Typed(y));
  }
  void EmbeddingBackward(int64_t batch, int64_t time, int64_t width,
                         int64_t vocabulary, const int32_t* tokens,
                         const Real* dy, bool accumulate, float* dtoken_table,
                         float* dposition_table) override {
    cuda::EmbeddingBackward(Current(), scratch_, batch, time, width, vocabulary,
                            tokens, Typed(dy),
                            {accumulate, dtoken_table, dposition_table});
  }

  int64_t SavedAttentionSize(const AttentionShape& s) const override {
    return s.batch * s.heads * s.time;
  }
  void AttentionForward(const AttentionShape& shape, const Real* qkv,
                        const RandomStream& stream, float rate, Real* y,
                        float* saved) override {
    cuda::AttentionForward(Current(), shape, Typed(qkv), {stream, Base(), rate},
                           Typed(y), saved);
  }
  void AttentionBackward(const AttentionShape& shape, const Real* qkv,
                         const Real* y, const float* saved, const Real* dy,
                         const RandomStream& stream, float rate,
                         Real* dqkv) override {
    cuda::AttentionBackward(Current(), scratch_, shape, Typed(qkv), Typed(y),
                            saved, Typed(dy), {stream, Base(), rate},
                            Typed(dqkv));
  }

  void BeginSoftmaxCrossEntropy(int64_t rows, int64_t classes,
                                const Real* logits, const int32_t* labels,
                                Real* dlogits) override {
    losses_.SoftmaxCrossEntropy(Current(), rows, classes, Typed(logits), labels,
                                Typed(dlogits));
    loss_made_->RecordOn(*stream_);
  }
  void BeginMeanSquaredError(int64_t rows, int64_t width, const Real* x,
                             const float* target, Real* dx) override {
    losses_.MeanSquaredError(Current(), rows, width, Typed(x), target,
                             Typed(dx));
    loss_made_->RecordOn(*stream_);
  }
  Loss AwaitLoss() override {
    Stream& stream = Current();
    loss_made_->Wait();
    stream.EndIfFailed();
    return losses_.Sum();
  }

  static constexpr Precision kPrecision =
      std::is_same_v<T, float> ? Precision::kFloat32 : Precision::kBfloat16;

 private:
  static const T* Typed(const Real* x) { return reinterpret_cast<const T*>(x); }
  static T* Typed(Real* x) { return reinterpret_cast<T*>(x); }

  const RandomBase* Base() const {
    return static_cast<const RandomBase*>(random_base_.get());
  }

  // Sum over all internal memory that captured operations use.
  int64_t Growths() const {
    return scratch_.growths() + linear_->growths() + convolution_->growths();
  }

  // Makes the stream's GPU current, because the instance may have moved between
  // threads, and returns the stream.
  Stream& Current() {
    stream_->Activate();
    return *stream_;
  }

  const std::unique_ptr<Stream> stream_;
  const std::string name_;
  const std::string bus_id_;
  const std::unique_ptr<cuda::CudaEvent> loss_made_;
  Memory random_base_{nullptr, nullptr};
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
    cudaGetLastError();  // Not an error of a later call.
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
               absl::StrCat("cannot read the PCI address of cuda:", ordinal)));
  return absl::AsciiStrToLower(bus_id);
}

void LeaveCuda(int ordinal) {
  if (cudaSetDevice(ordinal) == cudaSuccess) cudaDeviceReset();
  cudaGetLastError();
}

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(int ordinal,
                                                         Precision precision) {
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
                             cuda::LinearRunner::Create(precision));
  std::unique_ptr<cuda::ConvolutionRunner> convolution =
      cuda::ConvolutionRunner::Create(precision);
  cudaDeviceProp properties;
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaGetDeviceProperties(&properties, ordinal),
               absl::StrCat("cannot read the properties of cuda:", ordinal)));
  TRIBUTARY_ASSIGN_OR_RETURN(std::string bus_id, CudaBusId(ordinal));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<cuda::CudaEvent> loss_made,
                             cuda::CudaEvent::Create(ordinal));
  const auto create =
      [&](auto real) -> absl::StatusOr<std::unique_ptr<Device>> {
    auto device = std::make_unique<CudaDevice<decltype(real)>>(
        std::move(stream), std::move(loss_made), std::move(linear),
        std::move(convolution), properties.name, std::move(bus_id));
    TRIBUTARY_RETURN_IF_ERROR(device->AllocateRandomBase());
    return device;
  };
  if (precision == Precision::kBfloat16) return create(cuda::Bfloat16());
  return create(float());
}

}  // namespace tributary
