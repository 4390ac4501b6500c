// Temporary memory of operations.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_

#include <cstddef>
#include <cstdint>

#include "common/cuda/stream.h"

namespace tributary::cuda {

// A block of memory that grows to the largest requested size and never shrinks.
// The operations of one stream share the block: they run one after the other,
// and each requests memory once. Not thread-safe. The GPU of the stream must be
// the calling thread's current CUDA device.
class Scratch {
 public:
  enum class Place {
    kDevice,
    kPinnedHost,  // Host memory that the GPU copies to directly.
  };

  // This object increments `*growths` whenever its memory grows. `stream` and
  // `growths` must outlive this object.
  Scratch(Stream* stream, int64_t* growths, Place place = Place::kDevice)
      : stream_(stream), growths_(growths), place_(place) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Returns memory of at least `bytes` bytes, aligned to 256 bytes, with
  // unspecified content. The memory is valid until the next call. Growing waits
  // for the GPU. If memory does not suffice, records an error in the stream. If
  // the stream has an error, the result must not be used.
  void* Bytes(size_t bytes);
  // Like Bytes, for `count` floats.
  float* Floats(int64_t count);

 private:
  void Free();

  Stream* const stream_;
  int64_t* const growths_;
  const Place place_;
  void* memory_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_
