#include "common/base/thread_pool.h"

#include <atomic>
#include <utility>

#include "common/base/monotonic_clock.h"

namespace tributary {

ThreadPool::ThreadPool(int threads) {
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (Thread& thread : threads_) thread.Join();
}

void ThreadPool::Run(std::function<void()> task) {
  absl::MutexLock lock(&mu_);
  tasks_.push_back(std::move(task));
}

void ThreadPool::Work() {
  const auto ready = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return stopping_ || !tasks_.empty();
  };
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mu_);
      Await(&mu_, absl::Condition(&ready));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

absl::Status ParallelFor(
    int threads, int64_t items,
    const std::function<absl::Status(int thread, int64_t item)>& work) {
  absl::Mutex mu;
  absl::Status first;
  std::atomic<int64_t> next{0};
  const auto run = [&](int thread) {
    for (int64_t item = next++; item < items; item = next++) {
      const absl::Status status = work(thread, item);
      if (status.ok()) continue;
      absl::MutexLock lock(&mu);
      first.Update(status);
      return;
    }
  };
  std::vector<Thread> others;
  for (int thread = 1; thread < threads; ++thread) {
    others.emplace_back([&run, thread] { run(thread); });
  }
  run(0);
  for (Thread& other : others) other.Join();
  return first;
}

}  // namespace tributary
