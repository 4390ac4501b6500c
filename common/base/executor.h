// Whoever runs tasks: threads, or a test that decides when each of them runs.
#ifndef TRIBUTARY_COMMON_BASE_EXECUTOR_H_
#define TRIBUTARY_COMMON_BASE_EXECUTOR_H_

#include <functional>

namespace tributary {

// Thread-safe. The queue has no bound of its own: callers bound what they have
// under way.
class Executor {
 public:
  // Runs what is queued first.
  virtual ~Executor() = default;

  // Runs the task later, never within this call. Tasks begin in the order in
  // which they were given.
  virtual void Run(std::function<void()> task) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_EXECUTOR_H_
