#include "deploy/launch/plan/local_timing.h"

#include <time.h>

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
#include "worker/nn/gradient_sink.h"
#include "worker/nn/weights_view.h"
#include "worker/sparse/initial_vectors.h"

namespace tributary {
namespace {

constexpr int kMinRepetitions = 3;
constexpr absl::Duration kMicroBatchTime = absl::Seconds(1);
constexpr absl::Duration kLongestTiming = absl::Seconds(10);
constexpr double kPassSeconds = 0.05;
// Number of elements that exceed the caches: 16 MiB for each array of a thread.
constexpr int64_t kPassElements = 1 << 22;

// The time since its creation.
class Stopwatch {
 public:
  explicit Stopwatch(TimingClock clock)
      : clock_(clock == TimingClock::kWall ? CLOCK_MONOTONIC
                                           : CLOCK_THREAD_CPUTIME_ID),
        start_(Now()) {}

  double seconds() const { return Now() - start_; }

 private:
  double Now() const {
    timespec now = {};
    clock_gettime(clock_, &now);
    return static_cast<double>(now.tv_sec) +
           1e-9 * static_cast<double>(now.tv_nsec);
  }

  const clockid_t clock_;
  const double start_;
};

// Records when a micro-batch needs weights.
class TimedWeights final : public WeightsView {
 public:
  // `start` and `needed_at` must outlive this object. `needed_at` has an
  // element for each chunk.
  TimedWeights(const float* data, const ArenaLayout& layout,
               const Stopwatch& start, std::vector<double>* needed_at)
      : WeightsView(data),
        chunk_elements_(layout.chunk_elements()),
        start_(start),
        needed_at_(*needed_at) {}

  bool Await(int64_t begin, int64_t end) const override {
    int64_t chunk = begin / chunk_elements_;
    for (; chunk * chunk_elements_ < end; ++chunk) {
      double& at = needed_at_[chunk];
      if (at < 0) at = start_.seconds();
    }
    return true;
  }

 private:
  const int64_t chunk_elements_;
  const Stopwatch& start_;
  std::vector<double>& needed_at_;
};

// Records when the gradients of a micro-batch are final.
class TimedGradients final : public GradientSink {
 public:
  // `start` and `ready_at` must outlive this object. `ready_at` has an element
  // for each chunk.
  TimedGradients(float* data, const ArenaLayout& layout, const Stopwatch& start,
                 std::vector<double>* ready_at)
      : GradientSink(data),
        layout_(layout),
        start_(start),
        ready_at_(*ready_at),
        next_(layout.chunk_count() - 1) {}

  void Ready(int64_t begin) override {
    while (next_ >= 0 && layout_.ChunkBegin(next_) >= begin) {
      ready_at_[next_--] = start_.seconds();
    }
  }

 private:
  const ArenaLayout& layout_;
  const Stopwatch& start_;
  std::vector<double>& ready_at_;
  int next_;  // Chunks above it are final.
};

}  // namespace

bool EnoughRepetitions(int repetitions, absl::Duration elapsed) {
  if (elapsed >= kLongestTiming) return repetitions > 0;
  return repetitions > kMinRepetitions && elapsed >= kMicroBatchTime;
}

absl::StatusOr<ComputeProfile> TimeMicroBatch(const TrainingSetup& setup,
                                              TimingClock clock) {
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
    TRIBUTARY_RETURN_IF_ERROR(SetInitialVectors(setup.job(), &batches[thread]));
  }
  std::vector<absl::Status> statuses(threads);
  const auto compute = [&](int thread, const WeightsView& from,
                           GradientSink* to) {
    statuses[thread] =
        setup.model(thread)
            ->ForwardBackward(batches[thread], setup.job().seed(), /*step=*/0,
                              thread, from, to,
                              /*observer=*/nullptr)
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
        GradientSink sink(gradients[thread].get());
        compute(thread, weights.get(), &sink);
        others.DecrementCount();
      });
    }
    ComputeProfile profile;
    profile.needed_at.assign(layout.chunk_count(), -1);
    profile.ready_at.assign(layout.chunk_count(), -1);
    const Stopwatch begin(clock);
    TimedGradients sink(gradients[0].get(), layout, begin, &profile.ready_at);
    compute(
        /*thread=*/0,
        TimedWeights(weights.get(), layout, begin, &profile.needed_at), &sink);
    profile.seconds = begin.seconds();
    for (double& at : profile.needed_at) at = std::max(at, 0.0);
    for (double& at : profile.ready_at) {
      if (at < 0) at = profile.seconds;
    }
    profiles.push_back(std::move(profile));
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
