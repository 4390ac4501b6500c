// The queue on which a CUDA device runs operations.
#ifndef TRIBUTARY_COMMON_CUDA_STREAM_H_
#define TRIBUTARY_COMMON_CUDA_STREAM_H_

#include <cuda_runtime.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary::cuda {

// Owns a CUDA stream of one GPU and remembers the first error of its
// operations. From then on it queues nothing, because later work would read
// what earlier work has not written, and every Wait returns that error. Any
// thread may use it, one at a time. Only Wait blocks.
class Stream {
 public:
  // Creates a stream of GPU number `ordinal`, which must exist.
  static absl::StatusOr<std::unique_ptr<Stream>> Create(int ordinal);

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  int ordinal() const { return ordinal_; }

  // Makes the GPU the calling thread's current device, as queueing and
  // allocation require.
  void Activate();

  // Calls queue(stream), which queues work and returns CUDA's error, and
  // records the error under `operation`. Does nothing after an error.
  template <typename Queue>
  void Enqueue(const char* operation, const Queue& queue) {
    if (status().ok()) Check(queue(stream_), operation);
  }

  // Records the error if it is the first one. `operation`, a string literal,
  // names what failed.
  void Check(cudaError_t error, const char* operation);
  void Check(const absl::Status& status);
  // Returns the first error recorded by now. Work that is still queued may yet
  // fail; Wait includes its errors.
  const absl::Status& status() const {
    return first_error_.ok() && other_error_.has_value() ? *other_error_
                                                         : first_error_;
  }

  // Records later errors separately; EndErrors returns the first of them. For
  // operations that have a fallback.
  void BeginErrors() { other_error_ = absl::OkStatus(); }
  absl::Status EndErrors();

  // Blocks until all queued operations have completed. Returns the first error.
  absl::Status Wait();

 private:
  Stream(int ordinal, cudaStream_t stream);

  const int ordinal_;
  const cudaStream_t stream_;
  absl::Status first_error_;
  // Set between BeginErrors and EndErrors.
  std::optional<absl::Status> other_error_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_STREAM_H_
