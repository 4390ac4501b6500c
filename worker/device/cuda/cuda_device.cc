#include "worker/device/cuda/cuda_device.h"

#include <cuda_runtime.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/pinned_memory.h"
#include "common/cuda/stream.h"
#include "worker/device/cuda/cuda_context.h"
#include "worker/device/cuda/cuda_copies.h"
#include "worker/device/cuda/cuda_graph.h"
#include "worker/device/cuda/cuda_memory.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/elementwise.h"

namespace tributary {
namespace {

using cuda::CudaContext;
using cuda::Stream;
using cuda::ToStatus;

absl::StatusOr<Operations> CreateOperations(Precision precision,
                                            CudaContext* context) {
  Operations ops;
  ops.elementwise = cuda::CreateElementwiseOps(precision, context);
  TRIBUTARY_ASSIGN_OR_RETURN(
      ops.linear,
      cuda::CreateLinearOps(precision, context, ops.elementwise.get()));
  ops.convolution = cuda::CreateConvolutionOps(precision, context);
  ops.pooling = cuda::CreatePoolingOps(precision, context);
  ops.layer_norm = cuda::CreateLayerNormOps(precision, context);
  ops.batch_norm = cuda::CreateBatchNormOps(precision, context);
  ops.embedding = cuda::CreateEmbeddingOps(precision, context);
  ops.interaction = cuda::CreateInteractionOps(precision, context);
  ops.attention = cuda::CreateAttentionOps(precision, context);
  TRIBUTARY_ASSIGN_OR_RETURN(ops.loss, cuda::CreateLossOps(precision, context));
  ops.node_sum = cuda::CreateNodeSumOps(context);
  return ops;
}

class CudaDevice final : public Device {
 public:
  CudaDevice(Precision precision, std::unique_ptr<CudaContext> context,
             Operations ops, std::string name, std::string bus_id)
      : Device({&ops_, &copies_, &capture_}),
        precision_(precision == Precision::kTf32 ? Precision::kFloat32
                                                 : precision),
        name_(std::move(name)),
        bus_id_(std::move(bus_id)),
        context_(std::move(context)),
        copies_(context_.get()),
        capture_(context_.get()),
        ops_(std::move(ops)) {}

  ~CudaDevice() override { context_->Current(); }

  Precision precision() const override { return precision_; }
  std::string name() const override { return name_; }
  std::string bus_id() const override { return bus_id_; }

  absl::StatusOr<Memory> Allocate(size_t bytes) override {
    return cuda::AllocateMemory(context_->Current(), bytes);
  }
  std::optional<int64_t> AvailableMemoryBytes() const override {
    return cuda::FreeMemoryBytes(context_->ordinal());
  }
  void CopyFromHost(void* to, const void* from, size_t bytes) override {
    if (bytes == 0) return;
    Stream& stream = context_->Current();
    stream.Enqueue("CopyFromHost", [&](cudaStream_t queue) {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue);
    });
    // CUDA may read `from` later, even if it is pageable. The stream remembers
    // the error.
    stream.Wait().IgnoreError();
  }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override {
    Stream& stream = context_->Current();
    if (bytes > 0) {
      stream.Enqueue("CopyToHost", [&](cudaStream_t queue) {
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, queue);
      });
    }
    return stream.Wait();
  }
  void Zero(float* to, int64_t count) override {
    context_->Current().Enqueue("Zero", [&](cudaStream_t queue) {
      return cudaMemsetAsync(to, 0, static_cast<size_t>(count) * sizeof(float),
                             queue);
    });
  }
  absl::Status Synchronize() override { return context_->Current().Wait(); }
  void* stream() override { return context_->Current().get(); }
  void SetRandomBase(const RandomBase& base) override {
    context_->SetRandomBase(base);
  }

 private:
  const Precision precision_;
  const std::string name_;
  const std::string bus_id_;
  const std::unique_ptr<CudaContext> context_;
  cuda::CudaCopies copies_;
  cuda::CudaCapture capture_;
  const Operations ops_;
};

// Explains the error with which cudaGetDeviceCount has found no GPU.
std::string WhyNoDevice(cudaError_t error) {
  int driver_version = 0;
  if (error == cudaErrorInsufficientDriver &&
      cudaDriverGetVersion(&driver_version) == cudaSuccess &&
      driver_version == 0) {
    return "the NVIDIA driver (libcuda.so.1) is missing; install it or, if "
           "this is a container, start the container with GPUs (--gpus all)";
  }
  return cudaGetErrorString(error);
}

// Returns NotFound if there is no GPU with this number.
absl::Status CheckOrdinal(int ordinal) {
  TRIBUTARY_ASSIGN_OR_RETURN(const int count, CountCudaDevices());
  if (ordinal >= 0 && ordinal < count) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("there is no cuda:", ordinal,
                   "; the last GPU of this machine is cuda:", count - 1));
}

}  // namespace

absl::StatusOr<int> CountCudaDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();  // Not an error of a later call.
    return absl::FailedPreconditionError(absl::StrCat(
        "this machine has no GPU that CUDA can use: ",
        WhyNoDevice(error == cudaSuccess ? cudaErrorNoDevice : error)));
  }
  return count;
}

absl::StatusOr<PinMemory> PinForCuda(int ordinal) {
  TRIBUTARY_RETURN_IF_ERROR(CheckOrdinal(ordinal));
  return [ordinal](void* memory, size_t bytes) {
    return cuda::PinHostMemory(ordinal, memory, bytes);
  };
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
  TRIBUTARY_RETURN_IF_ERROR(CheckOrdinal(ordinal));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<CudaContext> context,
                             CudaContext::Create(ordinal));
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cuda::FindKernels(),
               absl::StrCat("this build has no code for cuda:", ordinal)));
  TRIBUTARY_ASSIGN_OR_RETURN(Operations ops,
                             CreateOperations(precision, context.get()));
  cudaDeviceProp properties;
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaGetDeviceProperties(&properties, ordinal),
               absl::StrCat("cannot read the properties of cuda:", ordinal)));
  TRIBUTARY_ASSIGN_OR_RETURN(std::string bus_id, CudaBusId(ordinal));
  return std::make_unique<CudaDevice>(precision, std::move(context),
                                      std::move(ops), properties.name,
                                      std::move(bus_id));
}

}  // namespace tributary
