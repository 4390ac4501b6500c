#include "deploy/launch/plan/update_pass.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "common/job/job.h"
#include "common/parameters/arena_layout.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/update_engine.h"
#include "common/update/weights_subscriber.h"
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

// A synchronous job of the model, with one micro-batch for each worker.
JobSpec PassJob(const JobSpec& job, int workers) {
  JobSpec pass;
  *pass.mutable_optimizer() = job.optimizer();
  *pass.mutable_exchange() = job.exchange();
  pass.mutable_exchange()->mutable_parameter_server()->clear_consistency();
  pass.mutable_batch()->set_micro_batches(workers);
  return pass;
}

// Counts the versions of chunks that an engine publishes.
class Publications final : public WeightsSubscriber {
 public:
  void OnWeights(const WeightsVersion& /*weights*/) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    --missing_;
  }
  // Blocks until `count` more versions were published.
  void Await(int count) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    missing_ += count;
    mu_.Await(absl::Condition(
        +[](int* missing) { return *missing == 0; }, &missing_));
  }

 private:
  absl::Mutex mu_;
  int missing_ ABSL_GUARDED_BY(mu_) = 0;
};

Buffer Zeros(BufferPool* pool) {
  Buffer buffer = pool->Take();
  std::fill_n(buffer.get(), pool->elements(), 0.0f);
  return buffer;
}

}  // namespace

absl::StatusOr<double> MeasureUpdatePass(const JobSpec& job, int workers,
                                         int threads, double seconds) {
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(TableOf(job)));
  UpdateEngine::Options options;
  options.job = PassJob(job, workers);
  options.steps = std::numeric_limits<int32_t>::max();
  auto pool = std::make_unique<ThreadPool>(threads);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<UpdateEngine> engine,
      UpdateEngine::Create(options, layout, pool.get(),
                           [](const StepSums& /*sums*/) {}));
  Publications published;
  // The engine must be destroyed after the last task.
  const absl::Cleanup drain = [&pool] { pool.reset(); };
  BufferPool arenas(layout.arena_elements());
  std::vector<Buffer> gradients;  // Indexed by worker.
  for (int i = 0; i < workers; ++i) gradients.push_back(Zeros(&arenas));
  engine->Subscribe(&published, MemoryPlace::kHost);
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    TRIBUTARY_RETURN_IF_ERROR(
        engine->AddInitial(chunk, Zeros(engine->memory().buffers())));
  }
  published.Await(layout.chunk_count());
  const auto run = [&](int64_t step) -> absl::Status {
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      for (int worker = 0; worker < workers; ++worker) {
        NodeSum sum;
        sum.step = step;
        sum.node = workers + worker;
        sum.gradient = std::make_shared<GradientInMemory>(
            MemoryView{gradients[worker].get() + layout.ChunkBegin(chunk)});
        sum.sample_count = 1;
        TRIBUTARY_RETURN_IF_ERROR(
            engine->AddContribution(chunk, std::move(sum)));
      }
    }
    published.Await(layout.chunk_count());
    return absl::OkStatus();
  };
  TRIBUTARY_RETURN_IF_ERROR(run(0));  // Touches all memory; not counted.
  int passes = 0;
  const absl::Time begin = absl::Now();
  const absl::Time end = begin + absl::Seconds(seconds);
  while (passes < kMinPasses || absl::Now() < end) {
    TRIBUTARY_RETURN_IF_ERROR(run(++passes));
  }
  return absl::ToDoubleSeconds(absl::Now() - begin) / passes;
}

}  // namespace tributary
