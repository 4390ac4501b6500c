#include "deploy/launch/plan/local_timing.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "deploy/launch/plan/update_pass.h"
#include "worker/nn/step_observer.h"

namespace tributary {
namespace {

constexpr int kMinRepetitions = 3;
constexpr absl::Duration kMicroBatchTime = absl::Seconds(1);
constexpr absl::Duration kLongestTiming = absl::Seconds(10);
constexpr double kPassSeconds = 0.05;
// Number of elements that exceed the caches: 16 MiB for each array of a thread.
constexpr int64_t kPassElements = 1 << 22;

double SecondsSince(absl::Time start) {
  return absl::ToDoubleSeconds(absl::Now() - start);
}

// Records when a micro-batch needs weights and when its gradients are final.
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
  int next_;  // Chunks above it are final.
  ComputeProfile profile_;
};

}  // namespace

bool EnoughRepetitions(int repetitions, absl::Duration elapsed) {
  if (elapsed >= kLongestTiming) return repetitions > 0;
  return repetitions > kMinRepetitions && elapsed >= kMicroBatchTime;
}

absl::StatusOr<ComputeProfile> TimeMicroBatch(const TrainingSetup& setup) {
  const ArenaLayout& layout = setup.layout();
  BufferPool arenas(layout.arena_elements());
  const Buffer weights = arenas.Take();
  setup.model(0)->Initialize(setup.job().seed(), layout, weights.get());
  const int threads = setup.threads();
  std::vector<Buffer> gradients;
  std::vector<Batch> batches(threads);
  for (int thread = 0; thread < threads; ++thread) {
    gradients.push_back(arenas.Take());
    const int micro_batch = thread % setup.job().batch().micro_batches();
    setup.data().ReadTrain(
        /*epoch=*/0,
        setup.sampler().MicroBatchOf(/*step=*/0, micro_batch).indexes,
        &batches[thread]);
    TRIBUTARY_RETURN_IF_ERROR(batches[thread].error);
  }
  std::vector<absl::Status> statuses(threads);
  const auto compute = [&](int thread, StepObserver* observer) {
    statuses[thread] =
        setup.model(thread)
            ->ForwardBackward(batches[thread], setup.job().seed(),
                              /*step=*/0, thread, weights.get(),
                              gradients[thread].get(), observer)
            .status();
  };
  ThreadPool pool(std::max(1, threads - 1));
  std::vector<ComputeProfile> profiles;
  const absl::Time start = absl::Now();
  while (!EnoughRepetitions(static_cast<int>(profiles.size()),
                            absl::Now() - start)) {
    setup.RenewWeightCopies();
    absl::BlockingCounter others(threads - 1);
    for (int thread = 1; thread < threads; ++thread) {
      pool.Run([&, thread] {
        compute(thread, /*observer=*/nullptr);
        others.DecrementCount();
      });
    }
    Recorder recorder(layout);
    compute(/*thread=*/0, &recorder);
    profiles.push_back(recorder.Finish());
    others.Wait();
    for (const absl::Status& status : statuses) {
      TRIBUTARY_RETURN_IF_ERROR(status);
    }
  }
  // The first repetition touches the memory.
  if (profiles.size() > 1) profiles.erase(profiles.begin());
  const auto middle = profiles.begin() + profiles.size() / 2;
  std::nth_element(profiles.begin(), middle, profiles.end(),
                   [](const ComputeProfile& a, const ComputeProfile& b) {
                     return a.seconds < b.seconds;
                   });
  return *middle;
}

absl::StatusOr<PassTiming> TimePass(const OptimizerSpec& optimizer,
                                    int64_t elements, int threads) {
  const int64_t timed =
      std::max<int64_t>(1, std::min(elements, kPassElements * threads));
  JobSpec job;
  *job.mutable_optimizer() = optimizer;
  job.mutable_model()->mutable_synthetic()->set_parameters(timed);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const double one,
      MeasureUpdatePass(job, /*workers=*/1, threads, kPassSeconds));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const double two,
      MeasureUpdatePass(job, /*workers=*/2, threads, kPassSeconds));
  PassTiming timing;
  timing.update = one / static_cast<double>(timed);
  timing.contribution = std::max(0.0, two - one) / static_cast<double>(timed);
  return timing;
}

}  // namespace tributary
