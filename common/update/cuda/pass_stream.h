// A CUDA stream with the working memory for the passes of a group of chunks.
#ifndef TRIBUTARY_COMMON_UPDATE_CUDA_PASS_STREAM_H_
#define TRIBUTARY_COMMON_UPDATE_CUDA_PASS_STREAM_H_

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/cuda/node_sums.h"
#include "common/cuda/stream.h"
#include "common/optimizer/cuda/square_sums.h"
#include "common/optimizer/cuda/update.h"
#include "common/parameters/block_squares.h"
#include "common/update/aggregation/chunk_aggregator.h"

namespace tributary::cuda {

// Size of `elements` floats.
inline size_t BytesOf(int64_t elements) {
  return static_cast<size_t>(elements) * sizeof(float);
}

// Queues the work of up to kGroupChunks passes on a CUDA stream. The passes of
// all chunks take turns using a PassStream. Calls must not overlap but may come
// from any thread. Only these operations block: Wait, copies from memory that
// is not pinned, and Sum if contributions must be decoded.
class PassStream {
 public:
  // Returns the number of floats of device memory that a PassStream needs for
  // chunks of up to `chunk_elements` elements and sums with a TreeSum::depth of
  // up to `depth`.
  static int64_t DeviceElements(int64_t chunk_elements, int depth);

  // Creates a PassStream on GPU `ordinal`. `memory` is device memory of
  // DeviceElements() floats, which must outlive the PassStream.
  static absl::StatusOr<std::unique_ptr<PassStream>> Create(
      int ordinal, int64_t chunk_elements, float* memory);
  ~PassStream();
  PassStream(const PassStream&) = delete;
  PassStream& operator=(const PassStream&) = delete;

  // Returns the stream after making its GPU current for the calling thread.
  Stream& Use();

  // These functions queue a copy of `elements` floats to the device or from the
  // device.
  void CopyIn(const float* host, int64_t elements, float* device);
  void CopyOut(const float* device, int64_t elements, float* host);
  // Queues a copy of `elements` floats from device memory to device memory.
  void CopyOnDevice(const float* from, int64_t elements, float* to);

  // Queues the sum of `elements` elements of all contributions, in the order of
  // the reduction tree. Contributions that are arrays in host memory are copied
  // from there, and must stay valid until Wait returns. Contributions in device
  // memory are read there. Other contributions are decoded on the calling
  // thread, each while the previous one is being copied. Returns a pointer to
  // the sum: `to`, or the gradient itself if there is only one contribution and
  // it is in device memory.
  const float* Sum(const TreeSum& sum, int64_t elements, float* to);
  // Returns device memory for the gradient sum of pass number `place` of a
  // group.
  float* sum(int place) const { return sums_ + place * chunk_elements_; }

  // Returns where kernels write the sums of squares (see SquareSums) of pass
  // number `place` of a group.
  BlockSquares* block_squares(int place) const {
    return device_squares_ + place * SquareBlocks(chunk_elements_);
  }
  // Queues a copy of the sums of squares of the first `count` passes to the
  // host.
  void CopySquares(int count);
  // Returns the GradientSquares (the gradient's sum of squares) of pass number
  // `place`, whose chunk has `elements` elements. Valid after CopySquares, once
  // Wait has returned OK.
  double squares(int place, int64_t elements) const;

  // Blocks until all queued work is done, without spinning. Returns the first
  // error of this stream; later calls return the same error.
  absl::Status Wait();

 private:
  // Pinned host memory, and an event that completes when the GPU has read this
  // memory.
  struct Staging {
    float* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };

  PassStream(std::unique_ptr<Stream> stream, int64_t chunk_elements,
             float* memory);
  absl::Status Allocate();

  // Returns pinned host memory that no copy to the GPU uses. Waits for a copy
  // to end if necessary.
  Staging& NextStaging();
  void CopyStaged(const Staging& staging, int64_t elements, float* device);
  // Returns the array at `height` in the stack that Sum uses to add
  // contributions (see TreeSum::steps). `first` is the array at height 0.
  float* PlaceOf(int height, float* first) const;
  void CopySource(const GradientSource& source, NodeFormat format,
                  int64_t elements, float* to);
  // Does the work of Sum for sparse contributions: adds them on the host, which
  // takes less time than copying each of them to the device. Writes the sum to
  // `first`.
  void SumOnHost(const TreeSum& sum, NodeFormat format, int64_t elements,
                 float* first);

  const std::unique_ptr<Stream> stream_;
  const int64_t chunk_elements_;
  // The next three arrays are in device memory.
  //
  // The sums of squares of kGroupChunks passes: for each pass, one entry for
  // each block of the largest chunk.
  BlockSquares* const device_squares_;
  // The gradient sums of kGroupChunks passes: for each pass, chunk_elements_
  // floats.
  float* const sums_;
  // The stack with which Sum adds contributions (see TreeSum::steps), without
  // its lowest array, which is Sum's output. It has room for the largest
  // TreeSum::depth minus one arrays of chunk_elements_ floats.
  float* const stack_;
  std::array<Staging, 2> staging_;
  size_t next_staging_ = 0;
  // A copy of device_squares_ in pinned host memory.
  BlockSquares* host_squares_ = nullptr;
  cudaEvent_t done_ = nullptr;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_UPDATE_CUDA_PASS_STREAM_H_
