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

// So many elements come from memory: 16 MiB for each array of a thread.
constexpr int64_t kPassElements = 1 << 22;
constexpr int64_t kPassBlock = 1 << 10;

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

// What one thread's part of a pass reads and writes.
class PassArrays {
 public:
  PassArrays(int64_t elements, int slots)
      : pool_(elements), elements_(elements) {
    for (Buffer& gradient : gradients_) gradient = Take();
    for (Buffer& weights : weights_) weights = Take();
    for (int i = 0; i < slots; ++i) slots_.push_back(Take());
  }

  // In the blocks in which a server does it.
  void Update(const Optimizer& optimizer, int contributions, int64_t step) {
    std::vector<float*> slots(slots_.size());
    for (int64_t at = 0; at < elements_; at += kPassBlock) {
      const ChunkSegment segment = {0, std::min(kPassBlock, elements_ - at),
                                    DECAY};
      for (size_t i = 0; i < slots.size(); ++i) slots[i] = slots_[i].get() + at;
      UpdateArguments update;
      update.gradient_sum = gradients_[0].get() + at;
      if (contributions == 2) {
        update.other_gradient_sum = gradients_[1].get() + at;
      }
      update.weights = weights_[step % 2].get() + at;
      update.new_weights = weights_[1 - step % 2].get() + at;
      update.slots = absl::MakeSpan(slots);
      update.segments = absl::MakeConstSpan(&segment, 1);
      update.learning_rate = 1e-3;
      update.step = step;
      optimizer.Update(update);
    }
  }

 private:
  Buffer Take() {
    Buffer buffer = pool_.Take();
    std::memset(buffer.get(), 0, elements_ * sizeof(float));
    return buffer;
  }

  BufferPool pool_;
  const int64_t elements_;
  Buffer gradients_[2];
  Buffer weights_[2];
  std::vector<Buffer> slots_;
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

absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& spec, int64_t elements,
                                    int threads) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(spec));
  const int64_t part = std::min(
      kPassElements, std::max<int64_t>(kPassBlock, elements / threads));
  std::vector<std::unique_ptr<PassArrays>> arrays(threads);
  for (auto& own : arrays) {
    own = std::make_unique<PassArrays>(part, optimizer->slots());
  }
  ThreadPool pool(threads);
  // In turn, because the machine's speed drifts; the best of each.
  double best[2] = {1e9, 1e9};
  const absl::Time start = absl::Now();
  for (int64_t step = 0;
       step <= kMinRepetitions || absl::Now() - start < kPassTime; ++step) {
    for (const int contributions : {1, 2}) {
      absl::BlockingCounter running(threads);
      const absl::Time begin = absl::Now();
      for (auto& own : arrays) {
        pool.Run([&, arrays = own.get()] {
          arrays->Update(*optimizer, contributions, step);
          running.DecrementCount();
        });
      }
      running.Wait();
      double& seconds = best[contributions - 1];
      seconds = std::min(seconds, SecondsSince(begin));
    }
  }
  const double all = static_cast<double>(part * threads);
  PassTiming timing;
  timing.update = best[0] / all;
  timing.contribution = std::max(0.0, best[1] - best[0]) / all;
  return timing;
}

}  // namespace tributary
