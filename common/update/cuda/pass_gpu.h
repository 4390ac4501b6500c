// The GPU of a server's passes: its memory, and the streams that passes share.
#ifndef TRIBUTARY_COMMON_UPDATE_CUDA_PASS_GPU_H_
#define TRIBUTARY_COMMON_UPDATE_CUDA_PASS_GPU_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/update/cuda/pass_share.h"
#include "common/update/cuda/pass_stream.h"

namespace tributary::cuda {

// The GPU memory that the passes of a ChunkPassPlan need, in elements of 4
// bytes.
struct MemoryPlan {
  int64_t weights = 0;
  int64_t state = 0;
  int64_t sums = 0;     // Sums of chunks that wait for the norm.
  int64_t rows = 0;     // Tables of the parameters in each chunk (ChunkRow).
  int64_t working = 0;  // Working memory of the PassStreams.
  int pass_streams = 1;
  // True if workers may map the weights. The weights are then allocated
  // separately, as two arenas of `weights` elements each, and the other memory
  // needs total() - weights elements. If the GPU's memory does not suffice for
  // two arenas, the weights are not shared, and total() elements are allocated.
  bool shares = false;

  int64_t total() const { return weights + state + sums + rows + working; }
};

// The GPU memory and the PassStreams of one server, shared by its passes.
// Thread-safe, except for Take.
class PassGpu {
 public:
  // Allocates the memory of `plan` on GPU number `ordinal`, which must exist.
  // `chunk_elements` is the size of the largest chunk, and `depth` the largest
  // TreeSum::depth of a sum. Returns ResourceExhausted, with a breakdown of the
  // required bytes, if the GPU's memory does not suffice.
  static absl::StatusOr<std::shared_ptr<PassGpu>> Create(int ordinal,
                                                         const MemoryPlan& plan,
                                                         int64_t chunk_elements,
                                                         int depth);
  ~PassGpu();
  PassGpu(const PassGpu&) = delete;
  PassGpu& operator=(const PassGpu&) = delete;

  // Returns the weights that workers may map. Null if workers may not map the
  // weights; the weights are then allocated with PassGpu::Take.
  const std::shared_ptr<PassShare>& share() const { return share_; }

  // Allocates GPU memory for `elements` floats, all of which are 0. All calls
  // together must not exceed the MemoryPlan of this object. Not thread-safe:
  // call it only while the passes are created.
  float* Take(int64_t elements);

  // Takes a PassStream for the lifetime of this object. Blocks until one is
  // free. A thread that has taken a PassStream does not wait for other threads,
  // so this cannot deadlock.
  class PassStreamUse {
   public:
    explicit PassStreamUse(PassGpu* gpu)
        : gpu_(gpu), pass_stream_(gpu->TakePassStream()) {
      pass_stream_->Use();
    }
    ~PassStreamUse() { gpu_->ReturnPassStream(pass_stream_); }
    PassStreamUse(const PassStreamUse&) = delete;
    PassStreamUse& operator=(const PassStreamUse&) = delete;
    PassStream* operator->() const { return pass_stream_; }
    PassStream* get() const { return pass_stream_; }

   private:
    PassGpu* const gpu_;
    PassStream* const pass_stream_;
  };

 private:
  PassGpu(int ordinal, std::shared_ptr<PassShare> share, float* memory)
      : ordinal_(ordinal), share_(std::move(share)), memory_(memory) {}
  PassStream* TakePassStream() ABSL_LOCKS_EXCLUDED(mu_);
  void ReturnPassStream(PassStream* pass_stream) ABSL_LOCKS_EXCLUDED(mu_);

  const int ordinal_;
  const std::shared_ptr<PassShare> share_;
  float* const memory_;
  int64_t taken_ = 0;  // Number of elements that Take has allocated.
  std::vector<std::unique_ptr<PassStream>> pass_streams_;

  absl::Mutex mu_;
  std::vector<PassStream*> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary::cuda

#endif  // TRIBUTARY_COMMON_UPDATE_CUDA_PASS_GPU_H_
