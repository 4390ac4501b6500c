// An interface for running tasks asynchronously. In production, a thread pool
// implements it; tests run the tasks one at a time.
#ifndef TRIBUTARY_COMMON_BASE_EXECUTOR_H_
#define TRIBUTARY_COMMON_BASE_EXECUTOR_H_

#include <functional>

namespace tributary {

// Runs tasks asynchronously. Thread-safe. The queue is unbounded, so callers
// must limit the number of tasks that they queue at a time.
class Executor {
 public:
  // Destructors of implementations run all tasks that are still queued.
  virtual ~Executor() = default;

  // Queues `task` and returns without running it. Tasks start in the order of
  // the calls.
  virtual void Run(std::function<void()> task) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_EXECUTOR_H_
