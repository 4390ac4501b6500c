#include "common/base/monotonic_clock.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr absl::Duration kShort = absl::Milliseconds(20);

TEST(MonotonicNowTest, GoesOn) {
  absl::Time last = MonotonicNow();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = MonotonicNow();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(AwaitForTest, WaitsForItsTime) {
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  const bool never = false;
  const absl::Time begin = MonotonicNow();
  EXPECT_FALSE(AwaitFor(&mu, absl::Condition(&never), kShort));
  EXPECT_GE(MonotonicNow() - begin, kShort);
  EXPECT_FALSE(AwaitUntil(&mu, absl::Condition(&never), begin + 3 * kShort));
  EXPECT_GE(MonotonicNow() - begin, 3 * kShort);
}

TEST(AwaitForTest, LooksOnceWhenThereIsNoTime) {
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  bool value = false;
  for (const absl::Duration none :
       {absl::ZeroDuration(), -absl::InfiniteDuration()}) {
    value = false;
    EXPECT_FALSE(AwaitFor(&mu, absl::Condition(&value), none));
    value = true;
    EXPECT_TRUE(AwaitFor(&mu, absl::Condition(&value), none));
  }
  EXPECT_FALSE(AwaitUntil(&mu,
                          absl::Condition(
                              +[](bool* v) { return !*v; }, &value),
                          absl::InfinitePast()));
}

TEST(AwaitForTest, EndsWithItsCondition) {
  for (const absl::Duration timeout :
       {absl::Minutes(10), absl::InfiniteDuration()}) {
    absl::Mutex mu;
    bool value = false;
    std::thread other([&] {
      absl::MutexLock lock(&mu);
      value = true;
    });
    {
      absl::MutexLock lock(&mu);
      EXPECT_TRUE(AwaitFor(&mu, absl::Condition(&value), timeout));
    }
    other.join();
  }
}

// Conditions become true at about the time when waits end, on mutexes that do
// not live on.
TEST(AwaitForTest, ManyWaitsAtATime) {
  constexpr int kThreads = 8;
  constexpr int kWaits = 300;
  std::atomic<int> met{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([i, &met] {
      for (int wait = 0; wait < kWaits; ++wait) {
        auto mu = std::make_unique<absl::Mutex>();
        bool value = false;
        std::thread setter;
        {
          absl::MutexLock lock(mu.get());
          setter = std::thread([&] {
            absl::MutexLock its_lock(mu.get());
            value = true;
          });
          if (AwaitFor(mu.get(), absl::Condition(&value),
                       absl::Microseconds(10 * ((wait + i) % 20)))) {
            ++met;
          }
        }
        setter.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(met, kThreads * kWaits);
}

}  // namespace
}  // namespace tributary
