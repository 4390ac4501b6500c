#include "deploy/launch/plan/update_pass.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "common/job/job.h"
#include "common/numerics/streaming_copy.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_weights.h"
#include "proto/job.pb.h"

namespace tributary {
namespace {

constexpr int kMinPasses = 5;

ParameterTable TableOf(const JobSpec& job) {
  ParameterTable table;
  ParameterTable::Parameter* weights = table.add_parameter();
  weights->set_name("weights");
  weights->add_shape(job.model().synthetic().parameters());
  weights->set_group(NO_DECAY);
  table.set_chunk_elements(ChunkBytes(job.exchange()) / int64_t{sizeof(float)});
  return table;
}

// Updates a server's chunks as UpdateEngine does, from gradients in the
// arenas of `workers` workers.
class Passes {
 public:
  Passes(const JobSpec& job, ArenaLayout layout,
         std::unique_ptr<Optimizer> optimizer, int workers, int threads)
      : exchange_(job.exchange()),
        layout_(std::move(layout)),
        streams_(layout_.arena_elements() * int64_t{sizeof(float)} >=
                 kStreamingBytes),
        optimizer_(std::move(optimizer)),
        arenas_(layout_.arena_elements()),
        buffers_(std::min(layout_.chunk_elements(), layout_.arena_elements())),
        halves_((buffers_.elements() + 1) / 2),
        threads_(threads),
        pool_(threads) {
    for (int i = 0; i < workers; ++i) gradients_.push_back(Zeros(&arenas_));
    for (int number = 0; number < layout_.chunk_count(); ++number) {
      chunks_.push_back(std::make_unique<Chunk>(this, number));
      chunks_.back()->weights.Initialize(/*version=*/0, Zeros(&buffers_));
    }
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
          Update(chunks_[chunk].get(), &aggregator);
        }
        running.DecrementCount();
      });
    }
    running.Wait();
  }

 private:
  struct Chunk {
    Chunk(Passes* passes, int n)
        : number(n),
          pass(passes->layout_, n, passes->optimizer_.get()),
          weights(&passes->exchange_, passes->layout_.ChunkSize(n),
                  &passes->buffers_, &passes->halves_) {}
    const int number;
    BlockPass pass;
    ChunkWeights weights;
  };

  static Buffer Zeros(BufferPool* pool) {
    Buffer buffer = pool->Take();
    std::fill_n(buffer.get(), pool->elements(), 0.0f);
    return buffer;
  }

  void Update(Chunk* chunk, ChunkAggregator* aggregator) {
    const int leaves = static_cast<int>(gradients_.size());
    for (int leaf = 0; leaf < leaves; ++leaf) {
      NodeSum sum;
      sum.node = leaves + leaf;
      sum.gradient = std::make_shared<GradientInMemory>(MemoryView{
          gradients_[leaf].get() + layout_.ChunkBegin(chunk->number)});
      sum.sample_count = 1;
      aggregator->Add(std::move(sum));
    }
    const TreeSum sum = aggregator->Take();
    ChunkWeights::Next next = chunk->weights.Begin(/*for_streams=*/false);
    BlockPass::Arguments pass;
    pass.sum = &sum;
    pass.step.gradient_scale = 1.f / static_cast<float>(leaves);
    pass.step.learning_rate = 1e-3;
    pass.step.number = chunk->weights.version();
    pass.next = &next;
    pass.streams = streams_;
    chunk->pass.Run(pass).IgnoreError();  // A pass on a CPU cannot fail.
    chunk->weights.Complete(&next);
    chunk->weights.Finish(std::move(next));
  }

  const ExchangeSpec exchange_;
  const ArenaLayout layout_;
  const bool streams_;
  const std::unique_ptr<Optimizer> optimizer_;
  BufferPool arenas_;
  BufferPool buffers_;
  BufferPool halves_;
  std::vector<Buffer> gradients_;  // Indexed by worker.
  std::vector<std::unique_ptr<Chunk>> chunks_;
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
  Passes pass(job, std::move(layout), std::move(optimizer), workers, threads);
  pass.Run();  // Touches all memory; not counted.
  int passes = 0;
  const absl::Time begin = absl::Now();
  const absl::Time end = begin + absl::Seconds(seconds);
  for (; passes < kMinPasses || absl::Now() < end; ++passes) pass.Run();
  return absl::ToDoubleSeconds(absl::Now() - begin) / passes;
}

}  // namespace tributary
