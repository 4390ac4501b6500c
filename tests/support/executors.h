// Executors for tests.
#ifndef TRIBUTARY_TESTS_SUPPORT_EXECUTORS_H_
#define TRIBUTARY_TESTS_SUPPORT_EXECUTORS_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "common/base/executor.h"

namespace tributary {

// Runs each task at once, in the call of Run.
class InlineExecutor final : public Executor {
 public:
  void Run(std::function<void()> task) override { task(); }
};

// Keeps tasks until the test calls RunAll. Copies share their tasks, so that a
// test can keep a copy of an executor that another object owns. Not
// thread-safe.
class HeldExecutor final : public Executor {
 public:
  void Run(std::function<void()> task) override {
    tasks_->push_back(std::move(task));
  }
  // Runs all tasks, including those that a task adds.
  void RunAll() {
    while (!tasks_->empty()) {
      const std::function<void()> task = std::move(tasks_->front());
      tasks_->pop_front();
      task();
    }
  }
  size_t size() const { return tasks_->size(); }

 private:
  const std::shared_ptr<std::deque<std::function<void()>>> tasks_ =
      std::make_shared<std::deque<std::function<void()>>>();
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_EXECUTORS_H_
