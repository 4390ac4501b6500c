// A fixed number of threads that run tasks in the order in which they were
// queued.
#ifndef TRIBUTARY_COMMON_BASE_THREAD_POOL_H_
#define TRIBUTARY_COMMON_BASE_THREAD_POOL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/base/thread.h"

namespace tributary {

class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int threads);
  // Runs all queued tasks, then joins the threads.
  ~ThreadPool() override;

  void Run(std::function<void()> task) override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Thread> threads_;
};

// Calls work(thread, item) for all items from 0 to `items` - 1 on `threads`
// threads, of which the calling thread is number 0. Each thread stops at its
// first error. Returns the first error.
absl::Status ParallelFor(
    int threads, int64_t items,
    const std::function<absl::Status(int thread, int64_t item)>& work);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_THREAD_POOL_H_
