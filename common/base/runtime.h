// The interface to threads, waits and the monotonic clock, which the simulator
// replaces.
#ifndef TRIBUTARY_COMMON_BASE_RUNTIME_H_
#define TRIBUTARY_COMMON_BASE_RUNTIME_H_

#include <functional>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tributary {

// Code that runs in the simulator starts threads with Thread, waits with Await,
// AwaitFor and AwaitUntil, and reads the time with MonotonicNow. All of these
// call SimulatedRuntime() if the program defines it. Thread-safe.
class Runtime {
 public:
  // A thread that was started.
  class Started {
   public:
    virtual ~Started() = default;
    // Blocks until the thread's body has returned.
    virtual void Join() = 0;
  };

  virtual ~Runtime() = default;
  virtual absl::Time Now() = 0;
  // Releases `mu`, blocks until the condition holds or Now() is `deadline`,
  // acquires `mu` again, and returns whether the condition holds.
  virtual bool AwaitUntil(absl::Mutex* mu, const absl::Condition& condition,
                          absl::Time deadline) = 0;
  virtual std::unique_ptr<Started> Start(std::function<void()> body) = 0;
};

// Defined only in programs that simulate, in which it returns the simulation's
// runtime. Elsewhere it is null, and the machine's threads and clock are used.
Runtime* SimulatedRuntime() __attribute__((weak));

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_RUNTIME_H_
