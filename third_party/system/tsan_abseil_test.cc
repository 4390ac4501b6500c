// Correct uses of Abseil's locks, of which ThreadSanitizer must not complain.
// They say little without --config=tsan.

#include <array>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace {

// Threads add one by turns, each by `add`: it waits for the condition and adds,
// both with the mutex held. Returns the sum.
template <typename Add>
int TakeTurns(const Add& add) {
  constexpr int kThreads = 3;
  absl::Mutex mutex;
  int sum = 0;
  std::vector<std::thread> threads;
  for (int me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      for (int i = 0; i < 1000; ++i) {
        auto mine = [&sum, me] { return sum % kThreads == me; };
        add(&mutex, absl::Condition(&mine), &sum);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return sum;
}

TEST(TsanAbseil, SeesLockWhen) {
  auto add = [](absl::Mutex* mutex, const absl::Condition& mine, int* sum) {
    absl::MutexLock lock(mutex, mine);
    ++*sum;
  };
  EXPECT_EQ(TakeTurns(add), 3000);
}

TEST(TsanAbseil, SeesAwait) {
  auto add = [](absl::Mutex* mutex, const absl::Condition& mine, int* sum) {
    absl::MutexLock lock(mutex);
    mutex->Await(mine);
    ++*sum;
  };
  EXPECT_EQ(TakeTurns(add), 3000);
}

TEST(TsanAbseil, SeesAwaitThatTimesOut) {
  auto add = [](absl::Mutex* mutex, const absl::Condition& mine, int* sum) {
    absl::MutexLock lock(mutex);
    while (!mutex->AwaitWithTimeout(mine, absl::Microseconds(20))) {
    }
    ++*sum;
  };
  EXPECT_EQ(TakeTurns(add), 3000);
}

TEST(TsanAbseil, SeesCondVarAndReaders) {
  absl::Mutex mutex;
  absl::CondVar changed;
  int value = 0;
  std::thread writer([&] {
    for (int i = 0; i < 100; ++i) {
      absl::MutexLock lock(&mutex);
      ++value;
      changed.SignalAll();
    }
  });
  {
    absl::MutexLock lock(&mutex);
    while (value < 50) changed.Wait(&mutex);
    while (value < 100) changed.WaitWithTimeout(&mutex, absl::Milliseconds(1));
  }
  {
    absl::ReaderMutexLock lock(&mutex);
    EXPECT_EQ(value, 100);
  }
  writer.join();
}

TEST(TsanAbseil, SeesNotificationCounterAndBarrier) {
  constexpr int kThreads = 4;
  std::array<int, kThreads> values = {};
  absl::BlockingCounter written(kThreads);
  absl::Notification checked;
  absl::Barrier* all = new absl::Barrier(kThreads + 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      values[i] = 1;
      written.DecrementCount();
      checked.WaitForNotification();
      values[i] = 2;
      if (all->Block()) delete all;
    });
  }
  written.Wait();
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), kThreads);
  checked.Notify();
  if (all->Block()) delete all;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0), 2 * kThreads);
}

}  // namespace
