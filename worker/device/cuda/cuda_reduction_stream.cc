#include "worker/device/cuda/cuda_reduction_stream.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <new>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/node_sums.h"
#include "common/cuda/stream.h"
#include "common/optimizer/cuda/chunk_rows.h"
#include "common/optimizer/cuda/square_sums.h"
#include "common/optimizer/cuda/tensor_parts.h"
#include "common/optimizer/cuda/update.h"
#include "common/parameters/block_squares.h"
#include "common/parameters/gradient_squares.h"
#include "worker/device/cuda/cuda_copies.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/cuda/cuda_memory.h"

namespace tributary {
namespace cuda {
namespace {

size_t BytesOf(int64_t elements) {
  return static_cast<size_t>(elements) * sizeof(float);
}

// Reuses events that nothing refers to any more. Thread-safe.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(int ordinal) : ordinal_(ordinal) {}

  // Returns CUDA's error if there is no free event and CUDA cannot create one.
  absl::StatusOr<std::shared_ptr<CudaEvent>> Take() {
    CudaEvent* event = nullptr;
    {
      absl::MutexLock lock(&mu_);
      if (free_.empty()) {
        TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<CudaEvent> created,
                                   CudaEvent::Create(ordinal_));
        free_.push_back(std::move(created));
      }
      event = free_.back().release();
      free_.pop_back();
    }
    return std::shared_ptr<CudaEvent>(
        event, [pool = shared_from_this()](CudaEvent* unused) {
          absl::MutexLock lock(&pool->mu_);
          pool->free_.emplace_back(unused);
        });
  }

 private:
  const int ordinal_;
  absl::Mutex mu_;
  std::vector<std::unique_ptr<CudaEvent>> free_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<int> OrdinalOf(const std::string& bus_id) {
  TRIBUTARY_ASSIGN_OR_RETURN(const int count, CountCudaDevices());
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string each, CudaBusId(ordinal));
    if (each == bus_id) return ordinal;
  }
  return absl::NotFoundError(absl::StrCat("there is no GPU at ", bus_id));
}

class CudaReductionStream final : public ReductionStream {
 public:
  CudaReductionStream(std::unique_ptr<Stream> stream, const Plan& plan)
      : layout_(*plan.layout),
        slot_count_(plan.slots),
        chunk_blocks_(SquareBlocks(
            std::min(layout_.chunk_elements(), layout_.arena_elements()))),
        state_offsets_(layout_.chunk_count(), -1),
        events_(std::make_shared<EventPool>(stream->ordinal())),
        stream_(std::move(stream)) {
    for (const int chunk : plan.chunks) {
      state_offsets_[chunk] = state_elements_;
      state_elements_ += layout_.ChunkSize(chunk);
    }
    if (!plan.has_trust_ratios) return;
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      parts_.emplace_back(layout_, chunk);
      part_blocks_ += parts_.back().blocks();
    }
  }
  ~CudaReductionStream() override {
    absl::MutexLock lock(&mu_);
    Current().Wait().IgnoreError();
    if (host_squares_ != nullptr) cudaFreeHost(host_squares_);
  }

  absl::Status Initialize() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Stream& stream = Current();
    TRIBUTARY_ASSIGN_OR_RETURN(
        state_, AllocateMemory(stream, BytesOf(slot_count_ * state_elements_)));
    const size_t squares =
        layout_.chunk_count() * chunk_blocks_ * sizeof(BlockSquares);
    TRIBUTARY_ASSIGN_OR_RETURN(squares_, AllocateMemory(stream, squares));
    TRIBUTARY_RETURN_IF_ERROR(ToStatus(
        cudaMallocHost(reinterpret_cast<void**>(&host_squares_), squares),
        "no pinned host memory"));
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      host_rows_.resize(layout_.ChunkBegin(chunk) / kRowElements);
      const std::vector<ChunkRow> next = RowsOf(layout_, chunk);
      host_rows_.insert(host_rows_.end(), next.begin(), next.end());
    }
    const size_t bytes = host_rows_.size() * sizeof(ChunkRow);
    TRIBUTARY_ASSIGN_OR_RETURN(rows_, AllocateMemory(stream, bytes));
    QueueRows(stream, host_rows_.data(), bytes, rows_.get());
    if (!parts_.empty()) {
      host_scaled_rows_ = host_rows_;
      host_part_squares_.resize(part_blocks_);
      TRIBUTARY_ASSIGN_OR_RETURN(scaled_rows_, AllocateMemory(stream, bytes));
      TRIBUTARY_ASSIGN_OR_RETURN(
          part_squares_,
          AllocateMemory(stream, part_blocks_ * sizeof(BlockSquares)));
      TRIBUTARY_ASSIGN_OR_RETURN(
          direction_, AllocateMemory(stream, BytesOf(chunk_blocks_ *
                                                     int64_t{kSquareBlock})));
    }
    return stream.Wait();
  }

  Buffer Allocate(int64_t elements) override {
    absl::MutexLock lock(&mu_);
    absl::StatusOr<Device::Memory> memory =
        AllocateMemory(Current(), BytesOf(elements));
    if (!memory.ok()) throw std::bad_alloc();
    float* const values = static_cast<float*>(memory->get());
    return Buffer(values, [held = std::make_shared<Device::Memory>(
                               *std::move(memory))](float*) {});
  }

  void CopyIn(const float* host, int64_t count, float* to) override {
    QueueCopy("copying to the GPU", host, count, cudaMemcpyHostToDevice, to);
    Wait().IgnoreError();  // The stream remembers the error.
  }
  absl::Status CopyOut(const float* from, int64_t count, float* host) override {
    QueueCopy("copying from the GPU", from, count, cudaMemcpyDeviceToHost,
              host);
    return Wait();
  }
  void Copy(const float* x, int64_t count, float* to) override {
    QueueCopy("copying on the GPU", x, count, cudaMemcpyDeviceToDevice, to);
  }

  std::shared_ptr<Event> Record() override {
    absl::StatusOr<std::shared_ptr<CudaEvent>> event = events_->Take();
    absl::MutexLock lock(&mu_);
    if (!event.ok()) {
      stream_->Check(event.status());
      return CudaEvent::Failed(stream_->ordinal(), stream_->status());
    }
    (*event)->RecordOn(Current());
    return *std::move(event);
  }

  void Add(const float* x, int64_t count, float* sum) override {
    absl::MutexLock lock(&mu_);
    AddNode(Current(), NodeFormat::kFloat32, count, x, sum);
  }

  absl::StatusOr<std::vector<double>> SumSquares(
      absl::Span<const GradientSum> gradients) override;
  absl::StatusOr<std::vector<std::vector<TensorSquares>>> SumTensorSquares(
      const OptimizerStep& direction,
      absl::Span<const UpdateArrays> updates) override;
  void Update(const OptimizerStep& step,
              absl::Span<const UpdateArrays> updates) override;
  float* slot(int chunk, int slot) override {
    if (state_offsets_[chunk] < 0) return nullptr;
    return static_cast<float*>(state_.get()) + slot * state_elements_ +
           state_offsets_[chunk];
  }

  absl::Status Synchronize() override { return Wait(); }

 private:
  // Waits without the lock, so that other threads can queue operations.
  absl::Status Wait() ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::Status status = Record()->Wait();
    absl::MutexLock lock(&mu_);
    if (status.ok()) return stream_->status();
    // Without an event, copies to the caller's memory may still run.
    stream_->Check(status);
    return stream_->Wait();
  }
  Stream& Current() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    stream_->Activate();
    return *stream_;
  }
  // Returns the chunk's place in an array of the rows of all chunks.
  template <typename Row>
  Row* Of(int chunk, Row* rows) const {
    return rows + layout_.ChunkBegin(chunk) / kRowElements;
  }
  const ChunkRow* rows(int chunk) const {
    return Of(chunk, static_cast<const ChunkRow*>(rows_.get()));
  }
  static void QueueRows(Stream& stream, const ChunkRow* from, size_t bytes,
                        void* to) {
    stream.Enqueue("copying the chunks' rows", [&](cudaStream_t queue) {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue);
    });
  }
  // Queues a copy of the chunk's rows, with learning rate factors that are
  // multiplied by the trust ratios, and returns its place. Those of the step
  // before are no longer used.
  const ChunkRow* ScaledRows(Stream& stream, int chunk,
                             absl::Span<const float> trust_ratios);
  // Returns the pass of the update, whose slots are `slots`.
  ChunkUpdatePass PassOf(const OptimizerStep& step, const UpdateArrays& update,
                         std::vector<float*>* slots);
  void QueueCopy(const char* operation, const float* from, int64_t count,
                 cudaMemcpyKind kind, float* to) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Current().Enqueue(operation, [&](cudaStream_t queue) {
      return cudaMemcpyAsync(to, from, BytesOf(count), kind, queue);
    });
  }

  const ArenaLayout& layout_;
  const int slot_count_;
  const int64_t chunk_blocks_;  // Number of SquareBlocks of the largest chunk.
  // Begin of each chunk's state within a slot's array, or -1.
  std::vector<int64_t> state_offsets_;
  int64_t state_elements_ = 0;  // Of one slot.
  const std::shared_ptr<EventPool> events_;

  absl::Mutex mu_;
  const std::unique_ptr<Stream> stream_ ABSL_PT_GUARDED_BY(mu_);

  // In the GPU's memory, constant after Initialize: the optimizer's state, one
  // array for each slot; the rows of all chunks; and sums of squares, those of
  // chunk_blocks_ blocks for each chunk.
  Device::Memory state_{nullptr, nullptr};
  Device::Memory rows_{nullptr, nullptr};
  Device::Memory squares_{nullptr, nullptr};
  // With trust ratios, also in the GPU's memory: the rows of the newest step,
  // the sums of squares of all parts, and the direction of one chunk.
  Device::Memory scaled_rows_{nullptr, nullptr};
  Device::Memory part_squares_{nullptr, nullptr};
  Device::Memory direction_{nullptr, nullptr};
  std::vector<TensorParts> parts_;  // By chunk; empty without trust ratios.
  int64_t part_blocks_ = 0;         // Of all chunks.
  // Copies of rows_, scaled_rows_ and part_squares_.
  std::vector<ChunkRow> host_rows_, host_scaled_rows_;
  std::vector<BlockSquares> host_part_squares_;
  // A copy of squares_, in pinned memory.
  BlockSquares* host_squares_ = nullptr;
};

absl::StatusOr<std::vector<double>> CudaReductionStream::SumSquares(
    absl::Span<const GradientSum> gradients) {
  if (gradients.empty()) return std::vector<double>();
  auto* const of_blocks = static_cast<BlockSquares*>(squares_.get());
  {
    absl::MutexLock lock(&mu_);
    Stream& stream = Current();
    for (size_t begin = 0; begin < gradients.size(); begin += kSquareChunks) {
      std::vector<SquareSums> sums;
      for (size_t i = begin;
           i < std::min(gradients.size(), begin + kSquareChunks); ++i) {
        const int chunk = gradients[i].chunk;
        sums.push_back({layout_.ChunkSize(chunk), gradients[i].sum, rows(chunk),
                        of_blocks + i * chunk_blocks_});
      }
      cuda::SumSquares(stream, sums);
    }
    stream.Enqueue("copying from the GPU", [&](cudaStream_t queue) {
      return cudaMemcpyAsync(
          host_squares_, of_blocks,
          gradients.size() * chunk_blocks_ * sizeof(BlockSquares),
          cudaMemcpyDeviceToHost, queue);
    });
  }
  TRIBUTARY_RETURN_IF_ERROR(Wait());
  std::vector<double> squares;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const int64_t elements = layout_.ChunkSize(gradients[i].chunk);
    squares.push_back(GradientSquares::TotalOf(
        {host_squares_ + i * chunk_blocks_,
         static_cast<size_t>(SquareBlocks(elements))}));
  }
  return squares;
}

absl::StatusOr<std::vector<std::vector<TensorSquares>>>
CudaReductionStream::SumTensorSquares(const OptimizerStep& direction,
                                      absl::Span<const UpdateArrays> updates) {
  {
    absl::MutexLock lock(&mu_);
    Stream& stream = Current();
    auto* sums = static_cast<BlockSquares*>(part_squares_.get());
    for (const UpdateArrays& update : updates) {
      std::vector<float*> slots;
      ChunkUpdatePass pass = PassOf(direction, update, &slots);
      pass.new_weights = static_cast<float*>(direction_.get());
      pass.only_direction = true;
      parts_[update.chunk].Sum(stream, pass, sums);
      sums += parts_[update.chunk].blocks();
    }
    stream.Enqueue("copying from the GPU", [&](cudaStream_t queue) {
      return cudaMemcpyAsync(host_part_squares_.data(), part_squares_.get(),
                             part_blocks_ * sizeof(BlockSquares),
                             cudaMemcpyDeviceToHost, queue);
    });
  }
  TRIBUTARY_RETURN_IF_ERROR(Wait());
  std::vector<std::vector<TensorSquares>> squares;
  const BlockSquares* sums = host_part_squares_.data();
  for (const UpdateArrays& update : updates) {
    squares.push_back(parts_[update.chunk].Totals(sums));
    sums += parts_[update.chunk].blocks();
  }
  return squares;
}

const ChunkRow* CudaReductionStream::ScaledRows(
    Stream& stream, int chunk, absl::Span<const float> trust_ratios) {
  const auto count =
      static_cast<size_t>(layout_.ChunkSize(chunk) / kRowElements);
  ChunkRow* const rows = Of(chunk, host_scaled_rows_.data());
  std::copy_n(Of(chunk, host_rows_.data()), count, rows);
  parts_[chunk].Scale(trust_ratios, {rows, count});
  ChunkRow* const to = Of(chunk, static_cast<ChunkRow*>(scaled_rows_.get()));
  QueueRows(stream, rows, count * sizeof(ChunkRow), to);
  return to;
}

ChunkUpdatePass CudaReductionStream::PassOf(const OptimizerStep& step,
                                            const UpdateArrays& update,
                                            std::vector<float*>* slots) {
  for (int s = 0; s < slot_count_; ++s) slots->push_back(slot(update.chunk, s));
  ChunkUpdatePass pass;
  pass.elements = layout_.ChunkSize(update.chunk);
  pass.rows = rows(update.chunk);
  pass.sum = update.gradient_sum;
  pass.weights = update.weights;
  pass.new_weights = update.new_weights;
  pass.slots = *slots;
  pass.gradient_scale = step.gradient_scale;
  pass.statistics_scale = step.statistics_scale;
  pass.decayed = step.decayed;
  pass.plain = step.plain;
  return pass;
}

void CudaReductionStream::Update(const OptimizerStep& step,
                                 absl::Span<const UpdateArrays> updates) {
  absl::MutexLock lock(&mu_);
  Stream& stream = Current();
  for (size_t begin = 0; begin < updates.size(); begin += kGroupChunks) {
    const auto group = updates.subspan(begin, kGroupChunks);
    std::vector<std::vector<float*>> slots(group.size());
    std::vector<ChunkUpdatePass> passes;
    for (size_t i = 0; i < group.size(); ++i) {
      passes.push_back(PassOf(step, group[i], &slots[i]));
      if (group[i].trust_ratios.empty()) continue;
      passes.back().rows =
          ScaledRows(stream, group[i].chunk, group[i].trust_ratios);
    }
    UpdateChunks(stream, passes);
  }
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<ReductionStream>> CreateCudaReductionStream(
    const std::string& bus_id, const ReductionStream::Plan& plan) {
  TRIBUTARY_ASSIGN_OR_RETURN(const int ordinal, cuda::OrdinalOf(bus_id));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<cuda::Stream> stream,
                             cuda::Stream::Create(ordinal));
  TRIBUTARY_RETURN_IF_ERROR(cuda::ToStatus(
      cuda::FindSumKernels(),
      absl::StrCat("this build has no code for cuda:", ordinal)));
  // Loaded now: during a step, loading could wait for other members.
  TRIBUTARY_RETURN_IF_ERROR(
      cuda::ToStatus(cuda::LoadAddNode(), "cannot load the code of sums"));
  TRIBUTARY_RETURN_IF_ERROR(cuda::ToStatus(cuda::LoadUpdateChunks(),
                                           "cannot load the code of updates"));
  auto made =
      std::make_unique<cuda::CudaReductionStream>(std::move(stream), plan);
  const absl::Status status = made->Initialize();
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the optimizer's state of an all-reduce does not fit: ",
                     status.message(),
                     "; use shard_optimizer, or more workers, or set "
                     "exchange.all_reduce.backend to GLOO"));
  }
  TRIBUTARY_RETURN_IF_ERROR(status);
  return made;
}

}  // namespace tributary
