// Runs tasks as events, at times that depend on the seed.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_EXECUTOR_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_EXECUTOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "common/base/executor.h"
#include "tests/simulation/world/event_loop.h"
#include "tests/simulation/world/random.h"

namespace tributary::simulation {

// An executor whose tasks are events of one process.
class SimulatedExecutor final : public Executor {
 public:
  // A task starts within `longest` after it was added. If `threads` is 1, tasks
  // run in order, otherwise in any order. `loop` and `random` must outlive this
  // object.
  SimulatedExecutor(EventLoop* loop, Random* random, std::shared_ptr<Life> life,
                    int threads, absl::Duration longest)
      : loop_(loop),
        random_(random),
        life_(std::move(life)),
        threads_(threads),
        longest_(longest) {}

  // Runs the queued tasks unless the process has crashed.
  ~SimulatedExecutor() override {
    while (!life_->gone() && !tasks_->empty()) {
      auto task = tasks_->extract(tasks_->begin());
      task.mapped()();
    }
  }

  void Run(std::function<void()> task) override {
    const int64_t number = next_++;
    tasks_->emplace(number, std::move(task));
    absl::Time when =
        loop_->now() + random_->Between(absl::Microseconds(1), longest_);
    if (threads_ == 1) when = last_ = std::max(last_, when);
    loop_->At(when, life_, "task",
              [weak = std::weak_ptr<Tasks>(tasks_), number] {
                const auto tasks = weak.lock();
                if (tasks == nullptr) return;
                auto task = tasks->extract(number);
                if (!task.empty()) task.mapped()();
              });
  }

 private:
  using Tasks = std::map<int64_t, std::function<void()>>;

  EventLoop* const loop_;
  Random* const random_;
  const std::shared_ptr<Life> life_;
  const int threads_;
  const absl::Duration longest_;
  int64_t next_ = 0;
  absl::Time last_ = absl::InfinitePast();
  const std::shared_ptr<Tasks> tasks_ = std::make_shared<Tasks>();
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_EXECUTOR_H_
