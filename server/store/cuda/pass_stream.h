// What one chunk's pass needs of a GPU while it runs.
#ifndef TRIBUTARY_SERVER_STORE_CUDA_PASS_STREAM_H_
#define TRIBUTARY_SERVER_STORE_CUDA_PASS_STREAM_H_

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/node_sums.h"
#include "common/cuda/stream.h"
#include "server/store/aggregation/chunk_aggregator.h"
#include "server/store/cuda/chunk_rows.h"
#include "server/store/cuda/square_sums.h"

namespace tributary::cuda {

// A stream and working memory, which the passes of all chunks take turns with.
// One thread at a time, any thread. Nothing waits but Wait, and the copies from
// memory that is not pinned.
class PassStream {
 public:
  // Elements of device memory that a lane needs for chunks of up to
  // `chunk_elements` and sums of up to `depth`.
  static int64_t DeviceElements(int64_t chunk_elements, int depth);

  // On GPU number `ordinal`. `memory`: that many elements of its memory, which
  // must outlive the lane.
  static absl::StatusOr<std::unique_ptr<PassStream>> Create(
      int ordinal, int64_t chunk_elements, float* memory);
  ~PassStream();
  PassStream(const PassStream&) = delete;
  PassStream& operator=(const PassStream&) = delete;

  // The stream, with its GPU made the calling thread's.
  Stream& Use();

  // Queues copies of `elements` floats.
  void CopyIn(const float* host, int64_t elements, float* device);
  void CopyOut(const float* device, int64_t elements, float* host);

  // Queues the sum of `elements` of all contributions, in the tree's order.
  // Those in memory are copied from there, and must stay until Wait; the others
  // are decoded by this thread, one while the copy before it is on its way.
  // Writes to `to` or, if that is null, to memory of the lane, until its next
  // sum. Returns where it is.
  float* Sum(const TreeSum& sum, int64_t elements, float* to);

  // Queues GradientSquares of x[elements].
  void SumSquares(const float* x, int64_t elements, const ChunkRow* rows);
  // After Wait has returned OK: what came of it.
  double squares() const;

  // Returns when all that was queued is done; sleeps until then. Returns the
  // first error of this stream, and from then on always the same one.
  absl::Status Wait();

 private:
  // Pinned host memory, and the point at which the GPU is done with it.
  struct Staging {
    float* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };

  PassStream(std::unique_ptr<Stream> stream, int64_t chunk_elements,
             float* memory);
  absl::Status Allocate();

  // Host memory that no copy uses any more, in turn.
  Staging& NextStaging();
  void CopyStaged(const Staging& staging, int64_t elements, float* device);
  // Element 0 of the stack's place `height`; place 0 is `first`.
  float* PlaceOf(int height, float* first) const;
  void CopySource(const GradientSource& source, NodeFormat format,
                  int64_t elements, float* to);
  // Where most elements are zero the host's additions take less time than
  // copies do.
  void SumOnHost(const TreeSum& sum, NodeFormat format, int64_t elements,
                 float* first);

  const std::unique_ptr<Stream> stream_;
  const int64_t chunk_elements_;
  float* const memory_;  // Device: the stack.
  double* const device_squares_;
  std::array<Staging, 2> staging_;
  size_t next_staging_ = 0;
  double* host_squares_ = nullptr;  // Pinned.
  cudaEvent_t done_ = nullptr;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_SERVER_STORE_CUDA_PASS_STREAM_H_
