// The executors of simulated servers, which run tasks at times that depend on
// the seed.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_EXECUTOR_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/monotonic_clock.h"
#include "common/base/thread.h"
#include "tests/simulation/jobs/random.h"
#include "tests/simulation/world/event_loop.h"

namespace tributary::simulation {

// Runs tasks on threads of the simulated process `process`. A thread that was
// idle starts its next task within `longest`. One thread runs tasks in order;
// several threads run them in any order.
class SimulatedExecutor final : public Executor {
 public:
  // `random` must outlive this object.
  SimulatedExecutor(Random* random, std::shared_ptr<Life> process, int threads,
                    absl::Duration longest)
      : random_(random),
        process_(std::move(process)),
        in_order_(threads == 1),
        longest_(longest) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
  }
  // Runs the queued tasks unless the process has ended.
  ~SimulatedExecutor() override {
    {
      absl::MutexLock lock(&mu_);
      stopping_ = true;
    }
    for (Thread& thread : threads_) thread.Join();
  }

  void Run(std::function<void()> task) override {
    absl::MutexLock lock(&mu_);
    tasks_.push_back(std::move(task));
  }

 private:
  void Work() {
    const auto free_task = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return tasks_.size() > starting_;
    };
    const auto ready = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return stopping_ || free_task();
    };
    while (!process_->gone()) {
      {
        absl::MutexLock lock(&mu_);
        const bool idle = !ready();
        Await(&mu_, absl::Condition(&ready));
        if (!free_task()) return;
        if (idle) {
          // Reserves one of the tasks.
          ++starting_;
          bool never = false;
          AwaitFor(&mu_, absl::Condition(&never),
                   random_->Between(absl::Microseconds(1), longest_));
          --starting_;
        }
      }
      TakeTask()();
    }
  }

  std::function<void()> TakeTask() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    const auto last = static_cast<int64_t>(tasks_.size()) - 1;
    const auto place =
        tasks_.begin() + (in_order_ ? 0 : random_->Uniform(0, last));
    std::function<void()> task = std::move(*place);
    tasks_.erase(place);
    return task;
  }

  Random* const random_;
  const std::shared_ptr<Life> process_;
  const bool in_order_;
  const absl::Duration longest_;
  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  // Number of threads that are about to take a task.
  size_t starting_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Thread> threads_;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_EXECUTOR_H_
