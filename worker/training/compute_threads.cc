#include "worker/training/compute_threads.h"

#include <algorithm>
#include <new>
#include <optional>

#include "absl/synchronization/mutex.h"
#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

// Runs work() and converts std::bad_alloc to ResourceExhausted.
template <typename Work>
absl::Status Guarded(const Work& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of host memory");
  }
}

}  // namespace

ComputeThreads::ComputeThreads(const TrainingSetup& setup, TraceRecorder* trace,
                               const ComputeThreadTimer::Clock& clock)
    : clock_(clock),
      threads_(setup.threads() - 1),
      times_(&setup.rounds(), clock, setup.threads()),
      before_(setup.threads()) {
  for (int thread = 0; trace != nullptr && thread < setup.threads(); ++thread) {
    traces_.push_back(std::make_unique<ComputeTrace>(
        trace, thread, setup.model(thread)->LayerNames()));
    timer(thread)->SetObserver(
        [to = traces_.back().get()](Activity was) { to->OnSwitch(was); });
  }
}

absl::Status ComputeThreads::Run(
    ComputeThreadItems* items,
    const std::function<absl::Status(int thread, int64_t item)>& work) {
  absl::Mutex mu;
  absl::Status first;
  const int threads = items->threads();
  const absl::Time start = clock_();
  const auto run = [&](int thread) {
    while (const std::optional<int64_t> item = items->Take(thread)) {
      const absl::Status status = Guarded([&] { return work(thread, *item); });
      if (status.ok()) continue;
      absl::MutexLock lock(&mu);
      if (first.ok()) first = status;
      break;
    }
    items->Started(thread);
    timer(thread)->Switch(Activity::kIdle);
    if (!traces_.empty()) traces_[thread]->End();
  };
  int running = std::max(threads - 1, 0);  // On other threads.
  for (int thread = 1; thread < threads; ++thread) {
    threads_.Run([&, thread] {
      run(thread);
      absl::MutexLock lock(&mu);
      --running;
    });
  }
  // This thread is compute thread 0, which saves waking another one.
  if (threads > 0) run(0);
  const auto done = [&running] { return running == 0; };
  {
    absl::MutexLock lock(&mu);
    Await(&mu, absl::Condition(&done));
  }
  times_.EndTask(clock_() - start);
  return first;
}

void ComputeThreads::BeginItem(int thread, int64_t version, int64_t item) {
  if (traces_.empty()) return;
  traces_[thread]->Begin(version, static_cast<int>(item));
}

void ComputeThreads::BeginMicroBatch(int thread, int64_t version,
                                     int micro_batch) {
  BeginItem(thread, version, micro_batch);
  before_[thread] = MicroBatchTime(thread);
}

void ComputeThreads::EndMicroBatch(int thread) {
  timer(thread)->Switch(Activity::kIdle);
  times_.CountMicroBatch(MicroBatchTime(thread) - before_[thread]);
}

void ComputeThreads::Waited(int64_t step, absl::Time begin) {
  if (!traces_.empty()) traces_[0]->Waited(step, begin);
}

absl::Duration ComputeThreads::MicroBatchTime(int thread) const {
  const TimeSpent& spent = timer(thread)->spent();
  return spent[Activity::kData] + spent[Activity::kForward] +
         spent[Activity::kBackward];
}

}  // namespace tributary
