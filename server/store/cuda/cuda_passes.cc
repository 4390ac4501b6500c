#include "server/store/cuda/cuda_passes.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/pinned_memory.h"
#include "common/job/exchange_traits.h"
#include "server/store/cuda/chunk_rows.h"
#include "server/store/cuda/pass_stream.h"
#include "server/store/cuda/square_sums.h"
#include "server/store/cuda/update.h"

namespace tributary {
namespace {

using cuda::ChunkRow;
using cuda::kRowElements;
using cuda::PassStream;
using cuda::RowsOf;
using cuda::ToStatus;

size_t BytesOf(int64_t elements) {
  return static_cast<size_t>(elements) * sizeof(float);
}

// The GPU memory that the passes of a plan need, in elements of 4 bytes.
struct MemoryPlan {
  int64_t weights = 0;
  int64_t state = 0;
  int64_t sums = 0;  // Sums of chunks that wait for the norm.
  int64_t rows = 0;
  int64_t working = 0;
  int pass_streams = 1;

  int64_t total() const { return weights + state + sums + rows + working; }
};

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f MB", static_cast<double>(bytes) / 1e6);
}

absl::Status NoMemory(int ordinal, const MemoryPlan& plan, size_t free,
                      size_t total) {
  const auto size = [](int64_t elements) {
    return Megabytes(elements * int64_t{sizeof(float)});
  };
  return absl::ResourceExhaustedError(absl::StrCat(
      "cuda:", ordinal, " has no memory for this server's part of the model: ",
      size(plan.total()), " are needed (weights ", size(plan.weights),
      ", optimizer state ", size(plan.state), ", sums that wait for the norm ",
      size(plan.sums), ", working memory of ", plan.pass_streams,
      plan.pass_streams == 1 ? " thread " : " threads ",
      size(plan.rows + plan.working), "), ", Megabytes(free), " of ",
      Megabytes(total),
      " are free: take another GPU, more --servers with a GPU each, or "
      "--device cpu"));
}

// The GPU memory and the PassStreams of one server, shared by its passes.
// Thread-safe.
class PassGpu {
 public:
  static absl::StatusOr<std::shared_ptr<PassGpu>> Create(int ordinal,
                                                         const MemoryPlan& plan,
                                                         int64_t chunk_elements,
                                                         int depth);
  ~PassGpu();
  PassGpu(const PassGpu&) = delete;
  PassGpu& operator=(const PassGpu&) = delete;

  // Allocates zeroed memory. The total must not exceed the plan.
  float* Take(int64_t elements);

  // Takes a PassStream for the lifetime of this object. Blocks until one is
  // free. A thread that holds one waits for no other thread, so this cannot
  // deadlock.
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

   private:
    PassGpu* const gpu_;
    PassStream* const pass_stream_;
  };

 private:
  PassGpu(int ordinal, float* memory) : ordinal_(ordinal), memory_(memory) {}
  PassStream* TakePassStream() ABSL_LOCKS_EXCLUDED(mu_);
  void ReturnPassStream(PassStream* pass_stream) ABSL_LOCKS_EXCLUDED(mu_);

  const int ordinal_;
  float* const memory_;
  int64_t taken_ = 0;  // Elements allocated. Used only during construction.
  std::vector<std::unique_ptr<PassStream>> pass_streams_;

  absl::Mutex mu_;
  std::vector<PassStream*> free_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::shared_ptr<PassGpu>> PassGpu::Create(int ordinal,
                                                         const MemoryPlan& plan,
                                                         int64_t chunk_elements,
                                                         int depth) {
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaSetDevice(ordinal), absl::StrCat("cuda:", ordinal)));
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, BytesOf(plan.total()));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // Clears the error.
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return NoMemory(ordinal, plan, free, total);
  }
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(error, "cudaMalloc"));
  std::shared_ptr<PassGpu> gpu(
      new PassGpu(ordinal, static_cast<float*>(memory)));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<cuda::Stream> stream,
                             cuda::Stream::Create(ordinal));
  TRIBUTARY_RETURN_IF_ERROR(
      ToStatus(cudaMemsetAsync(memory, 0, BytesOf(plan.total()), stream->get()),
               "cudaMemsetAsync"));
  TRIBUTARY_RETURN_IF_ERROR(stream->Wait());
  for (int i = 0; i < plan.pass_streams; ++i) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        std::unique_ptr<PassStream> pass_stream,
        PassStream::Create(
            ordinal, chunk_elements,
            gpu->Take(PassStream::DeviceElements(chunk_elements, depth))));
    gpu->ReturnPassStream(pass_stream.get());
    gpu->pass_streams_.push_back(std::move(pass_stream));
  }
  return gpu;
}

PassGpu::~PassGpu() {
  pass_streams_.clear();
  if (cudaSetDevice(ordinal_) == cudaSuccess) cudaFree(memory_);
}

float* PassGpu::Take(int64_t elements) {
  float* const part = memory_ + taken_;
  taken_ += elements;
  return part;
}

PassStream* PassGpu::TakePassStream() {
  const auto any = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !free_.empty();
  };
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(&any));
  PassStream* const pass_stream = free_.back();
  free_.pop_back();
  return pass_stream;
}

void PassGpu::ReturnPassStream(PassStream* pass_stream) {
  absl::MutexLock lock(&mu_);
  free_.push_back(pass_stream);
}

// Returns the size of a chunk's rows in GPU memory, in elements of 4 bytes.
int64_t RowElements(const ArenaLayout& layout, int chunk) {
  const int64_t bytes =
      layout.ChunkSize(chunk) / kRowElements * int64_t{sizeof(ChunkRow)};
  // Keeps the following allocation aligned.
  constexpr int64_t kAlignment = kArenaAlignment * int64_t{sizeof(float)};
  return (bytes + kAlignment - 1) / kAlignment * kArenaAlignment;
}

// The pass of one chunk. Each call takes a PassStream, queues its work there
// and waits for it.
class CudaPass final : public ChunkPass {
 public:
  // `gpu` must have memory for it. `keeps_sum`: SumOfSquares is called before
  // Run.
  CudaPass(std::shared_ptr<PassGpu> gpu, const ChunkPassPlan& plan, int chunk,
           bool keeps_sum)
      : gpu_(std::move(gpu)),
        elements_(plan.layout->ChunkSize(chunk)),
        optimizer_(*plan.optimizer),
        weights_(gpu_->Take(elements_)),
        sum_(keeps_sum ? gpu_->Take(elements_) : nullptr),
        rows_(reinterpret_cast<ChunkRow*>(
            gpu_->Take(RowElements(*plan.layout, chunk)))) {
    for (int slot = 0; slot < optimizer_.slots(); ++slot) {
      slots_.push_back(gpu_->Take(elements_));
    }
  }

  // To be called before anything else.
  absl::Status Upload(const std::vector<ChunkRow>& rows) {
    const PassGpu::PassStreamUse pass_stream(gpu_.get());
    pass_stream->Use().Enqueue(
        "copying a chunk's rows", [&](cudaStream_t queue) {
          return cudaMemcpyAsync(rows_, rows.data(),
                                 rows.size() * sizeof(ChunkRow),
                                 cudaMemcpyHostToDevice, queue);
        });
    return pass_stream->Wait();
  }

  // The thread that adds a contribution must not wait for the GPU.
  bool brief() const override { return false; }

  absl::StatusOr<double> SumOfSquares(const TreeSum& sum) override {
    const PassGpu::PassStreamUse pass_stream(gpu_.get());
    const float* const total = pass_stream->Sum(sum, elements_, sum_);
    pass_stream->SumSquares(total, elements_, rows_);
    TRIBUTARY_RETURN_IF_ERROR(pass_stream->Wait());
    summed_ = sum_ != nullptr;
    squares_ = pass_stream->squares();
    return squares_;
  }

  absl::StatusOr<double> Run(const Arguments& arguments) override {
    const PassGpu::PassStreamUse pass_stream(gpu_.get());
    const ChunkWeights::Next& next = *arguments.next;
    if (!has_weights_) {
      pass_stream->CopyIn(next.from.get(), elements_, weights_);
    }
    has_weights_ = true;
    const bool summed = std::exchange(summed_, false);
    const float* const sum =
        summed ? sum_
               : pass_stream->Sum(*arguments.sum, elements_, /*to=*/nullptr);
    if (!arguments.skip) Update(pass_stream->Use(), sum, arguments);
    pass_stream->CopyOut(weights_, elements_, next.values.get());
    if (arguments.copy != nullptr) {
      QueueStateCopies(*pass_stream.operator->(), arguments.copy->slots);
    }
    // Queued last, because workers do not wait for it.
    if (!summed) pass_stream->SumSquares(sum, elements_, rows_);
    FailpointOrDie("S8");
    TRIBUTARY_RETURN_IF_ERROR(pass_stream->Wait());
    if (!summed) squares_ = pass_stream->squares();
    GiveOut(arguments);
    return squares_;
  }

  absl::Status Restore(std::vector<Buffer> slots) override {
    const PassGpu::PassStreamUse pass_stream(gpu_.get());
    for (size_t i = 0; i < slots_.size(); ++i) {
      pass_stream->CopyIn(slots[i].get(), elements_, slots_[i]);
    }
    has_weights_ = false;
    return pass_stream->Wait();
  }

  absl::Status CopyState(absl::Span<const Buffer> to) override {
    const PassGpu::PassStreamUse pass_stream(gpu_.get());
    QueueStateCopies(*pass_stream.operator->(), to);
    return pass_stream->Wait();
  }

 private:
  void Update(cuda::Stream& stream, const float* sum,
              const Arguments& arguments) {
    cuda::ChunkUpdatePass pass;
    pass.elements = elements_;
    pass.rows = rows_;
    pass.sum = sum;
    pass.weights = weights_;
    pass.slots = slots_;
    const OptimizerStep step = optimizer_.At(arguments.step);
    pass.gradient_scale = step.gradient_scale;
    pass.statistics_scale = step.statistics_scale;
    pass.decayed = step.decayed;
    pass.plain = step.plain;
    cuda::UpdateChunk(stream, pass);
  }

  void QueueStateCopies(PassStream& pass_stream, absl::Span<const Buffer> to) {
    for (size_t i = 0; i < slots_.size(); ++i) {
      pass_stream.CopyOut(slots_[i], elements_, to[i].get());
    }
  }

  // Derives the forms that workers receive, on the host.
  void GiveOut(const Arguments& arguments) const {
    const ChunkWeights::Next& next = *arguments.next;
    for (int64_t begin = 0; begin < elements_; begin += TreeSum::kBlock) {
      const int64_t count = std::min(TreeSum::kBlock, elements_ - begin);
      arguments.weights->Write(next, begin, count, next.values.get() + begin);
    }
    if (arguments.copy != nullptr && next.in_place) {
      std::copy_n(next.values.get(), elements_, arguments.copy->values.get());
    }
  }

  const std::shared_ptr<PassGpu> gpu_;
  const int64_t elements_;
  const Optimizer& optimizer_;
  // In the GPU's memory.
  float* const weights_;
  float* const sum_;  // Null: not kept.
  ChunkRow* const rows_;
  std::vector<float*> slots_;

  bool has_weights_ = false;  // False: they are only on the host.
  bool summed_ = false;       // `sum_` holds the sum for the next Run.
  double squares_ = 0;        // Of the last sum.
};

Buffer PinnedHostBuffer(int ordinal, size_t bytes) {
  void* memory = nullptr;
  if (cudaSetDevice(ordinal) != cudaSuccess ||
      cudaMallocHost(&memory, bytes) != cudaSuccess) {
    cudaGetLastError();  // Clears the error.
    return nullptr;
  }
  return Buffer(static_cast<float*>(memory), [ordinal](float* pinned) {
    cudaSetDevice(ordinal);
    cudaFreeHost(pinned);
  });
}

}  // namespace

absl::Status CheckCudaPasses(int ordinal) {
  int count = 0;
  cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count == 0) error = cudaErrorNoDevice;
  if (error != cudaSuccess) {
    cudaGetLastError();  // Not an error of a later call.
    return absl::FailedPreconditionError(
        absl::StrCat("this machine has no GPU that CUDA can use: ",
                     cudaGetErrorString(error)));
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::NotFoundError(
        absl::StrCat("there is no cuda:", ordinal,
                     "; the last GPU of this machine is cuda:", count - 1));
  }
  TRIBUTARY_RETURN_IF_ERROR(ToStatus(
      cudaSetDevice(ordinal), absl::StrCat("cannot use cuda:", ordinal)));
  return ToStatus(cuda::FindSumKernels(),
                  absl::StrCat("this build has no code for cuda:", ordinal));
}

absl::StatusOr<ChunkPasses> MakeCudaPasses(int ordinal, int pass_streams,
                                           const ChunkPassPlan& plan) {
  TRIBUTARY_RETURN_IF_ERROR(CheckCudaPasses(ordinal));
  const ArenaLayout& layout = *plan.layout;
  const int64_t most =
      std::min(layout.chunk_elements(), layout.arena_elements());
  const int depth =
      TreeSum::MostDepth(static_cast<int>(plan.job->batch().micro_batches()));
  const bool keeps_sums = ResolveExchange(*plan.job).updates_await_norm;
  MemoryPlan memory;
  for (const int chunk : plan.chunks) {
    memory.weights += layout.ChunkSize(chunk);
    memory.rows += RowElements(layout, chunk);
  }
  memory.state = memory.weights * plan.optimizer->slots();
  memory.sums = keeps_sums ? memory.weights : 0;
  memory.pass_streams = pass_streams;
  memory.working = pass_streams * PassStream::DeviceElements(most, depth);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::shared_ptr<PassGpu> gpu,
                             PassGpu::Create(ordinal, memory, most, depth));
  ChunkPasses made;
  for (const int chunk : plan.chunks) {
    auto pass = std::make_unique<CudaPass>(gpu, plan, chunk, keeps_sums);
    TRIBUTARY_RETURN_IF_ERROR(pass->Upload(RowsOf(layout, chunk)));
    made.passes.push_back(std::move(pass));
  }
  made.host_buffer = [ordinal, bytes = BytesOf(most)] {
    return PinnedHostBuffer(ordinal, bytes);
  };
  made.pin = [ordinal](void* memory, size_t bytes) {
    return cuda::PinHostMemory(ordinal, memory, bytes);
  };
  return made;
}

}  // namespace tributary
