// The queue that the operations of a CUDA device run on.
#ifndef TRIBUTARY_COMMON_CUDA_STREAM_H_
#define TRIBUTARY_COMMON_CUDA_STREAM_H_

#include <cuda_runtime.h>

#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tributary::cuda {

// Owns a CUDA stream of one GPU and keeps the first error of what was queued on
// it. One thread at a time, any thread. Only Wait waits.
class Stream {
 public:
  // GPU number `ordinal`, which must exist.
  static absl::StatusOr<std::unique_ptr<Stream>> Create(int ordinal);

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }
  int ordinal() const { return ordinal_; }

  // Makes the GPU the calling thread's current one, which whatever is queued or
  // allocated needs.
  void Activate();

  // Keeps the first error. `operation`, a literal, says what failed.
  void Check(cudaError_t error, const char* operation);
  void Check(const absl::Status& status);

  // Errors from here on are not kept with the others: EndErrors returns the
  // first of them. For what may fail and then be done in another way.
  void BeginErrors() { other_error_ = absl::OkStatus(); }
  absl::Status EndErrors();

  // Returns when everything queued so far has been done. Ends the process if
  // any of it failed.
  void Wait();
  // Ends the process if anything is known to have failed by now.
  void EndIfFailed();

 private:
  Stream(int ordinal, cudaStream_t stream);

  const int ordinal_;
  const cudaStream_t stream_;
  absl::Status first_error_;
  std::optional<absl::Status> other_error_;  // Between the two calls.
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_CUDA_STREAM_H_
