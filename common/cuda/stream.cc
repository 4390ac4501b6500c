#include "common/cuda/stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"

namespace tributary::cuda {

absl::StatusOr<std::unique_ptr<Stream>> Stream::Create(int ordinal) {
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(
      cudaSetDevice(ordinal), absl::StrCat("cannot use cuda:", ordinal)));
  cudaStream_t stream;
  // Non-blocking: the stream does not synchronize with CUDA's default stream.
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
               absl::StrCat("cannot create a stream on cuda:", ordinal)));
  return std::unique_ptr<Stream>(new Stream(ordinal, stream));
}

Stream::Stream(int ordinal, cudaStream_t stream)
    : ordinal_(ordinal), stream_(stream) {}

// Queued operations complete first; CUDA then frees the stream.
Stream::~Stream() {
  cudaSetDevice(ordinal_);
  cudaStreamDestroy(stream_);
}

void Stream::Activate() { Check(cudaSetDevice(ordinal_), "cudaSetDevice"); }

void Stream::Check(cudaError_t error, const char* operation) {
  if (error == cudaSuccess) return;
  Check(ToStatus(error, absl::StrCat(operation, " on cuda:", ordinal_)));
}

void Stream::Check(const absl::Status& status) {
  (other_error_.has_value() ? *other_error_ : first_error_).Update(status);
}

absl::Status Stream::EndErrors() {
  return *std::exchange(other_error_, std::nullopt);
}

absl::Status Stream::Wait() {
  // An error on the GPU appears in a later call; the first one is the most
  // informative.
  Check(cudaStreamSynchronize(stream_), "waiting for queued operations");
  return status();
}

}  // namespace tributary::cuda
