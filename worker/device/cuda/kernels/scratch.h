// Temporary memory of operations.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace tributary::cuda {

// Grows to the largest requested size and never shrinks. Each operation
// requests memory once; operations of one stream share it in turn. Not
// thread-safe. The GPU must be current.
class Scratch {
 public:
  enum class Place {
    kDevice,
    kPinnedHost,  // Host memory that the GPU copies to directly.
  };

  explicit Scratch(Place place) : place_(place) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Returns at least `bytes`, aligned to 256, with unspecified content. The
  // memory is valid until the next call. Growing waits for the GPU. Ends the
  // process if memory does not suffice, because operations have no other way to
  // report an error.
  void* Bytes(size_t bytes);
  float* Floats(int64_t count);

  // Returns the number of growths. Results of Bytes stay valid while it is
  // unchanged.
  int64_t growths() const { return growths_; }

 private:
  void Free();

  const Place place_;
  void* memory_ = nullptr;
  size_t capacity_ = 0;
  int64_t growths_ = 0;
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_
