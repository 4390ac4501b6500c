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

// Threads that take turns `turns` times, each by the `wait` that it is given:
// it returns with the mutex held once the condition holds.
template <typename Wait>
int TakeTurns(int turns, const Wait& wait) {
  constexpr int kThreads = 3;
  absl::Mutex mutex;
  int next = 0;
  std::vector<std::thread> threads;
  for (int me = 0; me < kThreads; ++me) {
    threads.emplace_back([&, me] {
      for (int i = 0; i < turns; ++i) {
        auto mine = [&next, me] { return next % kThreads == me; };
        wait(&mutex, absl::Condition(&mine));
        ++next;
        mutex.Unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return next;
}

TEST(TsanAbseil, SeesLockWhen) {
  EXPECT_EQ(TakeTurns(1000,
                      [](absl::Mutex* mutex, const absl::Condition& mine) {
                        mutex->LockWhen(mine);
                      }),
            3000);
}

TEST(TsanAbseil, SeesAwait) {
  EXPECT_EQ(TakeTurns(1000,
                      [](absl::Mutex* mutex, const absl::Condition& mine) {
                        mutex->Lock();
                        mutex->Await(mine);
                      }),
            3000);
}

TEST(TsanAbseil, SeesAwaitThatTimesOut) {
  EXPECT_EQ(TakeTurns(1000,
                      [](absl::Mutex* mutex, const absl::Condition& mine) {
                        mutex->Lock();
                        while (!mutex->AwaitWithTimeout(
                            mine, absl::Microseconds(20))) {
                        }
                      }),
            3000);
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
