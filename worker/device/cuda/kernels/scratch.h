// Working memory that an operation needs while it runs.
#ifndef TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_
#define TRIBUTARY_WORKER_DEVICE_CUDA_KERNELS_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace tributary::cuda {

// Grows to the largest size asked for and stays there. An operation asks once;
// operations of one stream take turns in it. One thread at a time, with the
// GPU current.
class Scratch {
 public:
  enum class Place {
    kDevice,
    kPinnedHost,  // Host memory that copies from the GPU need no detour for.
  };

  explicit Scratch(Place place) : place_(place) {}
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // At least `bytes`, aligned to 256, of unspecified content, valid until the
  // next call. Growing waits for the GPU. Ends the process where there is no
  // memory: operations have no other way to fail.
  void* Bytes(size_t bytes);
  float* Floats(int64_t count);

  // How often it has grown: what Bytes has returned is as good as ever while
  // this stays the same.
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
