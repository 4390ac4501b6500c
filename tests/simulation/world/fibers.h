// The threads of simulated processes: fibers on the one thread of the
// simulation, which switch only where they wait.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_FIBERS_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_FIBERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/runtime.h"
#include "tests/simulation/jobs/random.h"
#include "tests/simulation/world/event_loop.h"

namespace tributary::simulation {

// Runs blocking code in virtual time. A fiber belongs to a process and runs in
// events of that process. When it waits, it continues after an event of the
// process that makes its condition true, or at its deadline.
//
// The end of a process unwinds its fibers: their waits throw, so that all
// destructors run. Meanwhile the process is silent; see Life.
class Fibers final : public Runtime {
 public:
  // All arguments must outlive this object.
  Fibers(EventLoop* loop, Random* random);
  // All fibers must have ended.
  ~Fibers() override;

  // Starts a fiber of the process.
  void Start(std::shared_ptr<Life> process, std::function<void()> body);
  // Continues, in events of their own, the process's fibers whose conditions
  // hold. Call it after each event of the process.
  void WakeReady(const Life& process);
  // Unwinds all fibers of a process that has ended.
  void Unwind(int process);

  absl::Time Now() override { return loop_->now(); }
  bool AwaitUntil(absl::Mutex* mu, const absl::Condition& condition,
                  absl::Time deadline) override ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Starts a fiber of the process whose event is running.
  std::unique_ptr<Started> Start(std::function<void()> body) override;

 private:
  class Fiber;
  class Handle;
  using FiberList = std::vector<std::shared_ptr<Fiber>>;

  std::shared_ptr<Fiber> Add(std::shared_ptr<Life> process,
                             std::function<void()> body);
  // Runs the fiber until it waits or ends.
  void Resume(Fiber* fiber);
  void Suspend();
  // Runs the fiber of an ended process to its end.
  void Finish(Fiber* fiber);
  // Implements AwaitUntil for a process that has ended.
  bool AwaitAfterEnd(absl::Mutex* mu, const absl::Condition& condition)
      ABSL_NO_THREAD_SAFETY_ANALYSIS;
  // Runs fibers of an ended process whose conditions hold, until `condition`
  // holds or none is left.
  void RunReady(const Fiber& except, const absl::Condition& condition);
  static void Main();

  EventLoop* const loop_;
  Random* const random_;
  Fiber* current_ = nullptr;  // Null outside of fibers.
  int64_t waits_without_switch_ = 0;
  std::map<int, FiberList> fibers_;  // Indexed by number of the process.
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_FIBERS_H_
