#include "common/update/cuda/cuda_passes.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/status_macros.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/pinned_memory.h"
#include "common/job/exchange_traits.h"
#include "common/optimizer/cuda/chunk_rows.h"
#include "common/optimizer/cuda/square_sums.h"
#include "common/optimizer/cuda/update.h"
#include "common/update/cuda/pass_gpu.h"
#include "common/update/cuda/pass_stream.h"
#include "common/update/cuda/pass_tensors.h"

namespace tributary {
namespace {

using cuda::BytesOf;
using cuda::ChunkRow;
using cuda::MemoryPlan;
using cuda::PassGpu;
using cuda::PassStream;
using cuda::PassTensors;
using cuda::RowElements;
using cuda::RowsOf;
using cuda::ToStatus;

// The pass of one chunk. Each call takes a PassStream, queues its work there
// and waits for it. See CudaPassGroup for several passes.
class CudaPass final : public ChunkPass {
 public:
  // `gpu` must have memory for it. `keeps_sum`: SumOfSquares is called before
  // Run. `offset` is the chunk's place in an arena of shared weights.
  CudaPass(std::shared_ptr<PassGpu> gpu, const ChunkPassPlan& plan, int chunk,
           int64_t offset, bool keeps_sum)
      : gpu_(std::move(gpu)),
        elements_(plan.layout->ChunkSize(chunk)),
        optimizer_(*plan.optimizer),
        weights_(PlaceWeights(gpu_.get(), elements_, offset)),
        sum_(keeps_sum ? gpu_->Take(elements_) : nullptr),
        rows_(reinterpret_cast<ChunkRow*>(
            gpu_->Take(RowElements(*plan.layout, chunk)))) {
    for (int slot = 0; slot < optimizer_.slots(); ++slot) {
      slots_.push_back(gpu_->Take(elements_));
    }
    if (optimizer_.has_trust_ratios()) {
      tensors_.emplace(gpu_.get(), *plan.layout, chunk);
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

  absl::StatusOr<double> SumOfSquares(const TreeSum& sum) override;
  absl::StatusOr<std::vector<TensorSquares>> SumTensorSquares(
      const TensorArguments& arguments) override;
  absl::StatusOr<double> Run(const Arguments& arguments) override;

  // The parts of SumOfSquares, SumTensorSquares and Run of pass number `place`
  // of a group. Wait comes before each End.

  // Queues the sum and returns what to compute the squares of.
  cuda::SquareSums BeginSum(const TreeSum& sum, int place,
                            PassStream* pass_stream) {
    total_ = pass_stream->Sum(sum, elements_,
                              sum_ == nullptr ? pass_stream->sum(place) : sum_);
    return {elements_, total_, rows_, pass_stream->block_squares(place)};
  }
  double EndSum(int place, const PassStream& pass_stream) {
    summed_ = sum_ != nullptr;
    squares_ = pass_stream.squares(place, elements_);
    return squares_;
  }
  void BeginTensors(const TensorArguments& arguments, int place,
                    PassStream* pass_stream) {
    const int64_t version = arguments.step.number;
    BringWeights(arguments.weights.get(), version, pass_stream);
    const OptimizerRule rule = *optimizer_.DirectionAt(version);
    cuda::ChunkUpdatePass pass;
    pass.elements = elements_;
    pass.rows = rows_;
    pass.sum = total_;
    pass.weights = WeightsAt(version);
    pass.new_weights = pass_stream->sum(place);  // `total_` is elsewhere.
    pass.slots = slots_;
    pass.gradient_scale = arguments.step.gradient_scale;
    pass.decayed = rule;
    pass.plain = rule;
    pass.only_direction = true;
    tensors_->BeginSum(pass, pass_stream);
  }
  std::vector<TensorSquares> EndTensors() const { return tensors_->EndSum(); }
  // Queues the sum unless SumOfSquares has made it. Adds the update, unless it
  // is to be skipped, to `updates`, and otherwise the squares, unless they are
  // known, to `squares`.
  void BeginRun(const Arguments& arguments, int place, PassStream* pass_stream,
                std::vector<cuda::ChunkUpdatePass>* updates,
                std::vector<cuda::SquareSums>* squares) {
    BringWeights(arguments.next->from.get(), arguments.step.number,
                 pass_stream);
    cuda::SquareSums sum = {elements_, total_, rows_, nullptr};
    if (!summed_) sum = BeginSum(*arguments.sum, place, pass_stream);
    if (!arguments.skip) {
      updates->push_back(UpdateOf(sum, arguments));
      if (tensors_.has_value()) {
        updates->back().rows =
            tensors_->Scale(arguments.trust_ratios, pass_stream);
      }
      return;
    }
    if (!summed_) squares->push_back(sum);
    const float* const from = WeightsAt(arguments.step.number);
    float* const to = WeightsAt(arguments.step.number + 1);
    if (from != to) pass_stream->CopyOnDevice(from, elements_, to);
  }
  // Queues the copies of the results to the host.
  void CopyResults(const Arguments& arguments, PassStream* pass_stream) const {
    if (arguments.next->place != MemoryPlace::kDevice) {
      pass_stream->CopyOut(WeightsAt(arguments.step.number + 1), elements_,
                           arguments.next->values.get());
    }
    if (arguments.copy != nullptr) {
      QueueStateCopies(pass_stream, arguments.copy->slots);
    }
  }
  double EndRun(const Arguments& arguments, int place,
                const PassStream& pass_stream) {
    if (!std::exchange(summed_, false)) {
      squares_ = pass_stream.squares(place, elements_);
    }
    if (arguments.next->place != MemoryPlace::kDevice) GiveOut(arguments);
    return squares_;
  }

  absl::Status Place(int64_t version, const float* values) override {
    const PassGpu::PassStreamUse pass_stream(gpu_.get());
    pass_stream->CopyIn(values, elements_, WeightsAt(version));
    has_weights_ = true;
    return pass_stream->Wait();
  }

  absl::Status Fetch(int64_t version, float* to) override {
    return gpu_->share()->CopyToHost(WeightsAt(version), elements_, to);
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
    QueueStateCopies(pass_stream.get(), to);
    return pass_stream->Wait();
  }

 private:
  // Returns the places of even and odd versions.
  static std::array<float*, 2> PlaceWeights(PassGpu* gpu, int64_t elements,
                                            int64_t offset) {
    if (gpu->share() != nullptr) {
      return {gpu->share()->arena(0) + offset, gpu->share()->arena(1) + offset};
    }
    float* const place = gpu->Take(elements);
    return {place, place};
  }
  float* WeightsAt(int64_t version) const { return weights_[version % 2]; }

  // Copies the newest weights from the host unless the GPU has them.
  void BringWeights(const float* host, int64_t version,
                    PassStream* pass_stream) {
    if (!std::exchange(has_weights_, true)) {
      pass_stream->CopyIn(host, elements_, WeightsAt(version));
    }
  }

  cuda::ChunkUpdatePass UpdateOf(const cuda::SquareSums& sum,
                                 const Arguments& arguments) const {
    cuda::ChunkUpdatePass pass;
    pass.elements = elements_;
    pass.rows = rows_;
    pass.sum = sum.x;
    pass.weights = WeightsAt(arguments.step.number);
    pass.new_weights = WeightsAt(arguments.step.number + 1);
    pass.slots = slots_;
    const OptimizerStep step = optimizer_.At(arguments.step);
    pass.gradient_scale = step.gradient_scale;
    pass.statistics_scale = step.statistics_scale;
    pass.decayed = step.decayed;
    pass.plain = step.plain;
    pass.squares = sum.sums;
    return pass;
  }

  void QueueStateCopies(PassStream* pass_stream,
                        absl::Span<const Buffer> to) const {
    for (size_t i = 0; i < slots_.size(); ++i) {
      pass_stream->CopyOut(slots_[i], elements_, to[i].get());
    }
  }

  // Derives the forms that workers receive, on the host.
  void GiveOut(const Arguments& arguments) const {
    const ChunkWeights::Next& next = *arguments.next;
    for (int64_t begin = 0; begin < elements_; begin += TreeSum::kBlock) {
      const int64_t count = std::min(TreeSum::kBlock, elements_ - begin);
      next.Write(begin, count, next.values.get() + begin);
    }
    if (arguments.copy != nullptr && next.place == MemoryPlace::kShared) {
      std::copy_n(next.values.get(), elements_, arguments.copy->values.get());
    }
  }

  const std::shared_ptr<PassGpu> gpu_;
  const int64_t elements_;
  const Optimizer& optimizer_;
  // In the GPU's memory.
  const std::array<float*, 2> weights_;  // Of even and of odd versions.
  float* const sum_;                     // Null: not kept.
  ChunkRow* const rows_;
  std::vector<float*> slots_;
  std::optional<PassTensors> tensors_;  // Nullopt: there are no trust ratios.

  bool has_weights_ = false;  // False: they are only on the host.
  // Where the last sum is: `sum_`, working memory, or the only contribution.
  const float* total_ = nullptr;
  bool summed_ = false;  // `total_` is the sum for the next Run.
  double squares_ = 0;   // Of the last sum.
};

// Runs up to kGroupChunks passes on one PassStream: their updates, and the sums
// of their squares, are one launch.
class CudaPassGroup final : public ChunkPassGroup {
 public:
  CudaPassGroup(std::shared_ptr<PassGpu> gpu, int streams)
      : gpu_(std::move(gpu)), streams_(streams) {}

  int most() const override { return cuda::kGroupChunks; }
  int streams() const override { return streams_; }
  absl::StatusOr<std::vector<double>> SumOfSquares(
      absl::Span<const SumItem> items) override {
    return SumOn(gpu_.get(), items);
  }
  absl::StatusOr<std::vector<std::vector<TensorSquares>>> SumTensorSquares(
      absl::Span<const TensorItem> items) override {
    return SumTensorsOn(gpu_.get(), items);
  }
  absl::StatusOr<std::vector<double>> Run(
      absl::Span<const RunItem> items) override {
    return RunOn(gpu_.get(), items);
  }

  static absl::StatusOr<std::vector<double>> SumOn(
      PassGpu* gpu, absl::Span<const SumItem> items);
  static absl::StatusOr<std::vector<std::vector<TensorSquares>>> SumTensorsOn(
      PassGpu* gpu, absl::Span<const TensorItem> items);
  static absl::StatusOr<std::vector<double>> RunOn(
      PassGpu* gpu, absl::Span<const RunItem> items);

 private:
  const std::shared_ptr<PassGpu> gpu_;
  const int streams_;
};

CudaPass* PassOf(ChunkPass* pass) { return static_cast<CudaPass*>(pass); }

absl::StatusOr<std::vector<double>> CudaPassGroup::SumOn(
    PassGpu* gpu, absl::Span<const SumItem> items) {
  const PassGpu::PassStreamUse pass_stream(gpu);
  const int count = static_cast<int>(items.size());
  std::vector<cuda::SquareSums> sums;
  for (int place = 0; place < count; ++place) {
    sums.push_back(PassOf(items[place].pass)
                       ->BeginSum(*items[place].sum, place, pass_stream.get()));
  }
  cuda::SumSquares(pass_stream->Use(), sums);
  pass_stream->CopySquares(count);
  TRIBUTARY_RETURN_IF_ERROR(pass_stream->Wait());
  std::vector<double> squares;
  for (int place = 0; place < count; ++place) {
    squares.push_back(
        PassOf(items[place].pass)->EndSum(place, *pass_stream.get()));
  }
  return squares;
}

absl::StatusOr<std::vector<std::vector<TensorSquares>>>
CudaPassGroup::SumTensorsOn(PassGpu* gpu, absl::Span<const TensorItem> items) {
  const PassGpu::PassStreamUse pass_stream(gpu);
  for (size_t place = 0; place < items.size(); ++place) {
    PassOf(items[place].pass)
        ->BeginTensors(items[place].arguments, static_cast<int>(place),
                       pass_stream.get());
  }
  TRIBUTARY_RETURN_IF_ERROR(pass_stream->Wait());
  std::vector<std::vector<TensorSquares>> squares;
  for (const TensorItem& item : items) {
    squares.push_back(PassOf(item.pass)->EndTensors());
  }
  return squares;
}

absl::StatusOr<std::vector<double>> CudaPassGroup::RunOn(
    PassGpu* gpu, absl::Span<const RunItem> items) {
  const PassGpu::PassStreamUse pass_stream(gpu);
  const int count = static_cast<int>(items.size());
  std::vector<cuda::ChunkUpdatePass> updates;
  std::vector<cuda::SquareSums> sums;
  for (int place = 0; place < count; ++place) {
    PassOf(items[place].pass)
        ->BeginRun(*items[place].arguments, place, pass_stream.get(), &updates,
                   &sums);
  }
  cuda::UpdateChunks(pass_stream->Use(), updates);
  cuda::SumSquares(pass_stream->Use(), sums);
  for (const RunItem& item : items) {
    PassOf(item.pass)->CopyResults(*item.arguments, pass_stream.get());
  }
  const bool has_squares =
      !sums.empty() ||
      std::any_of(updates.begin(), updates.end(),
                  [](const auto& update) { return update.squares != nullptr; });
  if (has_squares) pass_stream->CopySquares(count);
  FailpointOrDie("S8");
  TRIBUTARY_RETURN_IF_ERROR(pass_stream->Wait());
  std::vector<double> squares;
  for (int place = 0; place < count; ++place) {
    squares.push_back(
        PassOf(items[place].pass)
            ->EndRun(*items[place].arguments, place, *pass_stream.get()));
  }
  return squares;
}

absl::StatusOr<double> CudaPass::SumOfSquares(const TreeSum& sum) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<double> squares,
                             CudaPassGroup::SumOn(gpu_.get(), {{this, &sum}}));
  return squares[0];
}

absl::StatusOr<std::vector<TensorSquares>> CudaPass::SumTensorSquares(
    const TensorArguments& arguments) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const auto squares,
      CudaPassGroup::SumTensorsOn(gpu_.get(), {{this, arguments}}));
  return squares[0];
}

absl::StatusOr<double> CudaPass::Run(const Arguments& arguments) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<double> squares,
      CudaPassGroup::RunOn(gpu_.get(), {{this, &arguments}}));
  return squares[0];
}

// Returns true if workers may read weights and write gradients on the GPU.
// Other jobs exchange them in another form or need other versions. With several
// servers, the arenas of a worker would be in the memory of several GPUs.
bool SharesWeights(const ChunkPassPlan& plan) {
  const ExchangeSpec& exchange = plan.job->exchange();
  const ExchangeTraits traits = ResolveExchange(*plan.job);
  return traits.servers_update && traits.one_version_per_round &&
         !traits.local_sgd && exchange.wire_dtype() == ExchangeSpec::FLOAT32 &&
         !exchange.has_compression() &&
         (exchange.transport() == ExchangeSpec::AUTO ||
          exchange.transport() == ExchangeSpec::MEMORY) &&
         static_cast<int>(plan.chunks.size()) == plan.layout->chunk_count();
}

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
    if (plan.optimizer->has_trust_ratios()) {
      memory.rows += PassTensors::Elements(layout, chunk);
    }
  }
  memory.state = memory.weights * plan.optimizer->slots();
  memory.sums = keeps_sums ? memory.weights : 0;
  memory.pass_streams = pass_streams;
  memory.shares = SharesWeights(plan);
  memory.working = pass_streams * PassStream::DeviceElements(most, depth);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::shared_ptr<PassGpu> gpu,
                             PassGpu::Create(ordinal, memory, most, depth));
  ChunkPasses made;
  made.share = gpu->share();
  for (const int chunk : plan.chunks) {
    auto pass = std::make_unique<CudaPass>(
        gpu, plan, chunk, layout.ChunkBegin(chunk), keeps_sums);
    TRIBUTARY_RETURN_IF_ERROR(pass->Upload(RowsOf(layout, chunk)));
    made.passes.push_back(std::move(pass));
  }
  made.group = std::make_unique<CudaPassGroup>(gpu, pass_streams);
  made.host_buffer = [ordinal, bytes = BytesOf(most)] {
    return PinnedHostBuffer(ordinal, bytes);
  };
  made.pin = [ordinal](void* memory, size_t bytes) {
    return cuda::PinHostMemory(ordinal, memory, bytes);
  };
  return made;
}

}  // namespace tributary
