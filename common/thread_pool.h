// A fixed number of threads that run tasks in the order in which they were
// given.
#ifndef TRIBUTARY_COMMON_THREAD_POOL_H_
#define TRIBUTARY_COMMON_THREAD_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace tributary {

// Thread-safe. The queue has no bound of its own: callers bound what they have
// under way.
class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  // Runs what is queued, then joins.
  ~ThreadPool();

  void Run(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Work() ABSL_LOCKS_EXCLUDED(mu_);

  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_THREAD_POOL_H_
