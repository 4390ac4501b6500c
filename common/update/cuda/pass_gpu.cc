#include "common/update/cuda/pass_gpu.h"

#include <cuda_runtime.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"

namespace tributary::cuda {
namespace {

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

absl::Status NoMemory(int ordinal, const MemoryPlan& plan, size_t free,
                      size_t total) {
  const auto size = [](int64_t elements) {
    return Megabytes(elements * int64_t{sizeof(float)});
  };
  return absl::ResourceExhaustedError(absl::StrCat(
      "cuda:", ordinal, " has no memory for this server's part of the model: ",
      size(plan.total()), " are needed (weights ", size(plan.weights),
      ", optimizer state ", size(plan.state), ", sums that wait for the norm ",
      size(plan.sums), ", working memory of ", plan.pass_streams,
      plan.pass_streams == 1 ? " thread " : " threads ",
      size(plan.rows + plan.working), "), ", Megabytes(free), " of ",
      Megabytes(total),
      " are free: take another GPU, more --servers with a GPU each, or "
      "--device cpu"));
}

// Returns null if the weights are not shared, or the GPU has no memory for them
// or cannot share it; passes then work without.
std::shared_ptr<PassShare> ShareOf(int ordinal, const MemoryPlan& plan) {
  if (!plan.shares || plan.weights == 0) return nullptr;
  return PassShare::Create(ordinal, plan.weights).value_or(nullptr);
}

}  // namespace

absl::StatusOr<std::shared_ptr<PassGpu>> PassGpu::Create(int ordinal,
                                                         const MemoryPlan& plan,
                                                         int64_t chunk_elements,
                                                         int depth) {
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaSetDevice(ordinal), absl::StrCat("cuda:", ordinal)));
  void* memory = nullptr;
  std::shared_ptr<PassShare> share = ShareOf(ordinal, plan);
  int64_t elements = plan.total() - (share == nullptr ? 0 : plan.weights);
  cudaError_t error = cudaMalloc(&memory, BytesOf(elements));
  if (error == cudaErrorMemoryAllocation && share != nullptr) {
    cudaGetLastError();  // Clears the error.
    share = nullptr;
    elements = plan.total();
    error = cudaMalloc(&memory, BytesOf(elements));
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // Clears the error.
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return NoMemory(ordinal, plan, free, total);
  }
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(error, "cudaMalloc"));
  std::shared_ptr<PassGpu> gpu(
      new PassGpu(ordinal, std::move(share), static_cast<float*>(memory)));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream,
                             Stream::Create(ordinal));
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaMemsetAsync(memory, 0, BytesOf(elements), stream->get()),
               "cudaMemsetAsync"));
  TRIBUTARY_RETURN_IF_ERROR(stream->Wait());
  for (int i = 0; i < plan.pass_streams; ++i) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        std::unique_ptr<PassStream> pass_stream,
        PassStream::Create(
            ordinal, chunk_elements,
            gpu->Take(PassStream::DeviceElements(chunk_elements, depth))));
    gpu->ReturnPassStream(pass_stream.get());
    gpu->pass_streams_.push_back(std::move(pass_stream));
  }
  return gpu;
}

PassGpu::~PassGpu() {
  pass_streams_.clear();
  if (cudaSetDevice(ordinal_) == cudaSuccess) cudaFree(memory_);
}

float* PassGpu::Take(int64_t elements) {
  float* const part = memory_ + taken_;
  taken_ += elements;
  return part;
}

PassStream* PassGpu::TakePassStream() {
  const auto any = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !free_.empty();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&any));
  PassStream* const pass_stream = free_.back();
  free_.pop_back();
  return pass_stream;
}

void PassGpu::ReturnPassStream(PassStream* pass_stream) {
  absl::MutexLock lock(&mu_);
  free_.push_back(pass_stream);
}

}  // namespace tributary::cuda
