// A CUDA stream that remembers the first error of its operations.
#ifndef TRIBUTARY_COMMON_CUDA_STREAM_H_
#define TRIBUTARY_COMMON_CUDA_STREAM_H_

#include <cuda_runtime.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary::cuda {

// Owns a CUDA stream of one GPU and remembers the first error of its
// operations. After an error it queues no further operations, because they
// would read results that the failed operation has not written. Every later
// Wait returns that error. Any thread may use a stream, but only one thread at
// a time. Only Wait blocks.
class Stream {
 public:
  // Creates a stream of GPU number `ordinal`, which must exist. See ToStatus
  // for the errors.
  static absl::StatusOr<std::unique_ptr<Stream>> Create(int ordinal);

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  int ordinal() const { return ordinal_; }

  // Makes the GPU the current device of the calling thread. Required before the
  // thread queues operations or allocates memory.
  void Activate();

  // Calls queue(stream), which must queue work and return CUDA's error code.
  // Records an error under the name `operation`. Does nothing if the stream has
  // failed.
  template <typename Queue>
  void Enqueue(const char* operation, const Queue& queue) {
    if (status().ok()) Check(queue(stream_), operation);
  }

  // Records `error` if it is the first error; ignores cudaSuccess. `operation`
  // names what failed.
  void Check(cudaError_t error, const char* operation);
  void Check(const absl::Status& status);
  // Returns the first error that has been recorded, or OK. Work that is still
  // queued may fail later; Wait returns such errors too.
  const absl::Status& status() const {
    return first_error_.ok() && other_error_.has_value() ? *other_error_
                                                         : first_error_;
  }

  // Errors between BeginErrors and EndErrors do not make the stream fail;
  // EndErrors returns the first of them, or OK. Use these functions for
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
  // Between BeginErrors and EndErrors, the first error since BeginErrors, or
  // OK. At all other times nullopt.
  std::optional<absl::Status> other_error_;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_STREAM_H_
