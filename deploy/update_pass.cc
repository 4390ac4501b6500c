#include "deploy/update_pass.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/optimizer.h"
#include "common/parameter_table.h"
#include "common/status_macros.h"
#include "common/streaming_copy.h"
#include "common/thread_pool.h"
#include "proto/job.pb.h"
#include "server/chunk_aggregator.h"
#include "server/gradient_source.h"

namespace tributary {
namespace {

constexpr int kMinPasses = 5;

ParameterTable TableOf(const JobSpec& job) {
  ParameterTable table;
  ParameterTable::Parameter* weights = table.add_parameter();
  weights->set_name("weights");
  weights->add_shape(job.model().synthetic().parameters());
  weights->set_group(NO_DECAY);
  table.set_chunk_elements(job.exchange().parameter_server().chunk_bytes() /
                           int64_t{sizeof(float)});
  return table;
}

class UpdatePass {
 public:
  UpdatePass(ArenaLayout layout, std::unique_ptr<Optimizer> optimizer,
             int workers, int threads)
      : layout_(std::move(layout)),
        streams_(layout_.arena_elements() * int64_t{sizeof(float)} >=
                 kStreamingBytes),
        optimizer_(std::move(optimizer)),
        arenas_(layout_.arena_elements()),
        threads_(threads),
        pool_(threads) {
    for (int i = 0; i < workers; ++i) gradients_.push_back(Arena());
    for (Buffer& weights : weights_) weights = Arena();
    for (int i = 0; i < optimizer_->slots(); ++i) slots_.push_back(Arena());
  }

  void Run() {
    std::atomic<int> next{0};
    absl::BlockingCounter running(threads_);
    for (int thread = 0; thread < threads_; ++thread) {
      pool_.Run([&] {
        ChunkAggregator aggregator(static_cast<int>(gradients_.size()),
                                   ExchangeSpec::FLOAT32);
        for (int chunk = next++; chunk < layout_.chunk_count();
             chunk = next++) {
          Update(chunk, &aggregator);
        }
        running.DecrementCount();
      });
    }
    running.Wait();
    ++step_;
  }

 private:
  Buffer Arena() {
    Buffer arena = arenas_.Take();
    std::fill_n(arena.get(), layout_.arena_elements(), 0.0f);
    return arena;
  }

  // As ParameterStore does it.
  void Update(int chunk, ChunkAggregator* aggregator) {
    const int64_t at = layout_.ChunkBegin(chunk);
    const int leaves = static_cast<int>(gradients_.size());
    for (int leaf = 0; leaf < leaves; ++leaf) {
      NodeSum sum;
      sum.gradient = std::make_shared<GradientInMemory>(
          gradients_[leaf].get() + at, /*owner=*/nullptr);
      sum.weight = 1;
      aggregator->Add(leaves + leaf, std::move(sum));
    }
    const TreeSum sum = aggregator->Take();
    UpdateArguments update;
    update.gradient_scale = 1.0f / static_cast<float>(leaves);
    update.learning_rate = 1e-3;
    update.step = step_;
    std::vector<float*> slots(slots_.size());
    alignas(64) float fresh[TreeSum::kBlock];
    const int64_t size = layout_.ChunkSize(chunk);
    for (int64_t begin = 0; begin < size; begin += TreeSum::kBlock) {
      const ChunkSegment block = {0, std::min(TreeSum::kBlock, size - begin),
                                  NO_DECAY};
      for (size_t i = 0; i < slots.size(); ++i) {
        slots[i] = slots_[i].get() + at + begin;
      }
      sum.Read(begin, block.end, &update.gradient_sum,
               &update.other_gradient_sum);
      update.weights = weights_[step_ % 2].get() + at + begin;
      float* const to = weights_[(step_ + 1) % 2].get() + at + begin;
      update.new_weights = streams_ ? fresh : to;
      update.slots = absl::MakeSpan(slots);
      update.segments = absl::MakeConstSpan(&block, 1);
      optimizer_->Update(update);
      if (streams_) StreamingCopy(fresh, block.end, to);
    }
  }

  const ArenaLayout layout_;
  const bool streams_;
  const std::unique_ptr<Optimizer> optimizer_;
  BufferPool arenas_;
  std::vector<Buffer> gradients_;  // By worker.
  Buffer weights_[2];
  std::vector<Buffer> slots_;
  int64_t step_ = 0;
  const int threads_;
  ThreadPool pool_;
};

}  // namespace

absl::StatusOr<double> MeasureUpdatePass(const JobSpec& job, int workers,
                                         int threads, double seconds) {
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout,
                             ArenaLayout::Create(TableOf(job)));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(job.optimizer()));
  UpdatePass pass(std::move(layout), std::move(optimizer), workers, threads);
  pass.Run();  // Touches all memory and does not count.
  int passes = 0;
  const absl::Time begin = absl::Now();
  const absl::Time end = begin + absl::Seconds(seconds);
  for (; passes < kMinPasses || absl::Now() < end; ++passes) pass.Run();
  return absl::ToDoubleSeconds(absl::Now() - begin) / passes;
}

}  // namespace tributary
