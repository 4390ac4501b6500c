#include "deploy/local_timing.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/buffer_pool.h"
#include "common/optimizer.h"
#include "common/status_macros.h"
#include "common/thread_pool.h"
#include "worker/nn/step_observer.h"

namespace tributary {
namespace {

constexpr int kMinRepetitions = 3;
constexpr absl::Duration kLeafTime = absl::Seconds(1);
constexpr absl::Duration kPassTime = absl::Milliseconds(100);

// The server's default chunk, and so many of them that their arrays come from
// memory: 16 MiB each.
constexpr int64_t kPassChunk = 1 << 18;
constexpr int64_t kPassElements = 16 * kPassChunk;

double SecondsSince(absl::Time start) {
  return absl::ToDoubleSeconds(absl::Now() - start);
}

// Writes down when a leaf asks for weights and hands over gradients.
class Recorder final : public StepObserver {
 public:
  explicit Recorder(const ArenaLayout& layout)
      : layout_(layout), start_(absl::Now()), next_(layout.chunk_count() - 1) {
    profile_.needed_at.assign(layout.chunk_count(), -1);
    profile_.ready_at.assign(layout.chunk_count(), -1);
  }

  bool WeightsNeeded(int64_t begin, int64_t end) override {
    const int64_t size = layout_.chunk_elements();
    for (int64_t chunk = begin / size; chunk * size < end; ++chunk) {
      double& at = profile_.needed_at[chunk];
      if (at < 0) at = SecondsSince(start_);
    }
    return true;
  }

  void GradientsReady(int64_t begin) override {
    while (next_ >= 0 && layout_.ChunkBegin(next_) >= begin) {
      profile_.ready_at[next_--] = SecondsSince(start_);
    }
  }

  ComputeProfile Finish() {
    profile_.seconds = SecondsSince(start_);
    for (double& at : profile_.needed_at) at = std::max(at, 0.0);
    for (double& at : profile_.ready_at) {
      if (at < 0) at = profile_.seconds;
    }
    return std::move(profile_);
  }

 private:
  const ArenaLayout& layout_;
  const absl::Time start_;
  int next_;  // Chunks above it are ready.
  ComputeProfile profile_;
};

}  // namespace

absl::StatusOr<ComputeProfile> TimeLeaf(const TrainingSetup& setup) {
  const ArenaLayout& layout = setup.layout();
  BufferPool arenas(layout.arena_elements());
  const Buffer weights = arenas.Take();
  setup.model(0)->Initialize(setup.job().seed(), layout, weights.get());
  const int lanes = setup.lanes();
  std::vector<Buffer> gradients;
  std::vector<Batch> batches(lanes);
  for (int lane = 0; lane < lanes; ++lane) {
    gradients.push_back(arenas.Take());
    const int leaf = lane % setup.job().batch().micro_batches();
    setup.data().ReadTrain(/*epoch=*/0,
                           setup.sampler().LeafOf(/*step=*/0, leaf).indexes,
                           &batches[lane]);
  }
  std::vector<absl::Status> statuses(lanes);
  const auto compute = [&](int lane, StepObserver* observer) {
    statuses[lane] = setup.model(lane)
                         ->ForwardBackward(batches[lane], setup.job().seed(),
                                           /*step=*/0, lane, weights.get(),
                                           gradients[lane].get(), observer)
                         .status();
  };
  ThreadPool pool(std::max(1, lanes - 1));
  std::vector<ComputeProfile> profiles;
  const absl::Time start = absl::Now();
  // The first repetition touches memory and does not count.
  for (int i = 0; i <= kMinRepetitions || absl::Now() - start < kLeafTime;
       ++i) {
    absl::BlockingCounter others(lanes - 1);
    for (int lane = 1; lane < lanes; ++lane) {
      pool.Run([&, lane] {
        compute(lane, /*observer=*/nullptr);
        others.DecrementCount();
      });
    }
    Recorder recorder(layout);
    compute(/*lane=*/0, &recorder);
    profiles.push_back(recorder.Finish());
    others.Wait();
    for (const absl::Status& status : statuses) {
      TRIBUTARY_RETURN_IF_ERROR(status);
    }
  }
  profiles.erase(profiles.begin());
  const auto middle = profiles.begin() + profiles.size() / 2;
  std::nth_element(profiles.begin(), middle, profiles.end(),
                   [](const ComputeProfile& a, const ComputeProfile& b) {
                     return a.seconds < b.seconds;
                   });
  return *middle;
}

absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& spec) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(spec));
  BufferPool pool(kPassElements);
  const auto take = [&] {
    Buffer arena = pool.Take();
    std::memset(arena.get(), 0, kPassElements * sizeof(float));
    return arena;
  };
  const Buffer gradients[2] = {take(), take()};
  const Buffer weights[2] = {take(), take()};
  std::vector<Buffer> slots;
  for (int i = 0; i < optimizer->slots(); ++i) slots.push_back(take());
  const ChunkSegment segment = {0, kPassChunk, DECAY};
  const auto pass = [&](int contributions, int64_t step) {
    for (int64_t at = 0; at < kPassElements; at += kPassChunk) {
      std::vector<float*> state;
      for (const Buffer& slot : slots) state.push_back(slot.get() + at);
      UpdateArguments update;
      update.gradient_sum = gradients[0].get() + at;
      if (contributions == 2) {
        update.other_gradient_sum = gradients[1].get() + at;
      }
      update.weights = weights[step % 2].get() + at;
      update.new_weights = weights[1 - step % 2].get() + at;
      update.slots = state;
      update.segments = absl::MakeConstSpan(&segment, 1);
      update.learning_rate = 1e-3;
      update.step = step;
      optimizer->Update(update);
    }
  };
  // In turn, because the machine's speed drifts; the best of each.
  double best[2] = {1e9, 1e9};
  const absl::Time start = absl::Now();
  for (int64_t step = 0;
       step <= kMinRepetitions || absl::Now() - start < kPassTime; ++step) {
    for (const int contributions : {1, 2}) {
      const absl::Time begin = absl::Now();
      pass(contributions, step);
      double& seconds = best[contributions - 1];
      seconds = std::min(seconds, SecondsSince(begin));
    }
  }
  PassTiming timing;
  timing.update = best[0] / kPassElements;
  timing.contribution = std::max(0.0, best[1] - best[0]) / kPassElements;
  return timing;
}

}  // namespace tributary
