// An interface to threads, waits and the monotonic clock, which the simulator
// implements. The simulator is a test program that runs whole clusters in
// virtual time.
#ifndef TRIBUTARY_COMMON_BASE_RUNTIME_H_
#define TRIBUTARY_COMMON_BASE_RUNTIME_H_

#include <functional>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tributary {

// The threads, waits and clock of a simulation. If a program defines
// SimulatedRuntime(), the class Thread and all functions of monotonic_clock.h
// use the Runtime that it returns, instead of the threads and the clock of the
// machine. Implementations are thread-safe.
class Runtime {
 public:
  // A thread that Start has started.
  class Started {
   public:
    virtual ~Started() = default;
    // Blocks until the thread's body has returned.
    virtual void Join() = 0;
  };

  virtual ~Runtime() = default;
  // Returns the time of the simulated clock.
  virtual absl::Time Now() = 0;
  // Releases `mu`, blocks until the condition holds or Now() has reached
  // `deadline`, acquires `mu` again, and returns true if the condition holds.
  virtual bool AwaitUntil(absl::Mutex* mu, const absl::Condition& condition,
                          absl::Time deadline) = 0;
  // Starts a thread that runs `body`.
  virtual std::unique_ptr<Started> Start(std::function<void()> body) = 0;
};

// Returns the runtime of the simulation. Only programs that simulate a cluster
// define this function. In all other programs its address is null, and the
// threads and the clock of the machine are used.
Runtime* SimulatedRuntime() __attribute__((weak));

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_RUNTIME_H_
