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
      pool_(setup.threads() - 1),
      times_(&setup.rounds(), clock, setup.threads()) {
  for (int i = 0; i < setup.threads(); ++i) {
    threads_.push_back(std::make_unique<ComputeThread>(
        i, times_.timer(i), trace, setup.model(i)->LayerNames()));
  }
}

absl::Status ComputeThreads::Run(int64_t version, ComputeThreadItems* items,
                                 const Work& work) {
  absl::Mutex mu;
  absl::Status first;
  const int threads = items->threads();
  const absl::Time start = clock_();
  const auto run = [&](int thread) {
    while (const std::optional<int64_t> item = items->Take(thread)) {
      threads_[thread]->Begin(version, *item);
      const absl::Status status = Guarded([&] { return work(thread, *item); });
      if (status.ok()) continue;
      absl::MutexLock lock(&mu);
      if (first.ok()) first = status;
      break;
    }
    items->Started(thread);
    threads_[thread]->End();
  };
  int running = std::max(threads - 1, 0);  // On other threads.
  for (int thread = 1; thread < threads; ++thread) {
    pool_.Run([&, thread] {
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

}  // namespace tributary
