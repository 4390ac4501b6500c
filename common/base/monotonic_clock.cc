#include "common/base/monotonic_clock.h"

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "common/base/runtime.h"

namespace tributary {
namespace {

using Clock = std::chrono::steady_clock;

// Waits with a longer timeout end only with their condition.
constexpr absl::Duration kLongestTimeout = absl::Hours(24 * 365);

// One wait, on the stack of the waiting thread.
struct Alarm {
  absl::Mutex* mu = nullptr;
  bool rung = false;  // Guarded by *mu.
};

// Ends waits whose timeout has expired. A thread of its own sets the wait's
// flag while holding the wait's mutex, which makes Abseil evaluate the wait's
// condition. The thread sleeps on a std::condition_variable, which accepts a
// monotonic clock.
class Alarms {
 public:
  // Never destroyed, because threads may wait until the process ends.
  static Alarms* Get() {
    static Alarms* const alarms = new Alarms();
    return alarms;
  }

  void Set(Clock::time_point time, Alarm* alarm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto place = alarms_.emplace(time, alarm);
    if (place == alarms_.begin()) changed_.notify_one();
  }

  // Returns false if the alarm is about to be set. It must stay alive until
  // then.
  bool Remove(Clock::time_point time, const Alarm* alarm) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto [begin, end] = alarms_.equal_range(time);
    for (auto it = begin; it != end; ++it) {
      if (it->second != alarm) continue;
      alarms_.erase(it);
      return true;
    }
    return false;
  }

 private:
  Alarms() {
    std::thread([this] { Work(); }).detach();
  }

  [[noreturn]] void Work() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      if (alarms_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const auto first = alarms_.begin();
      const Clock::time_point time = first->first;
      if (Clock::now() < time) {
        changed_.wait_until(lock, time);
        continue;
      }
      Alarm* const alarm = first->second;
      alarms_.erase(first);
      lock.unlock();
      {
        absl::MutexLock its_lock(alarm->mu);
        alarm->rung = true;
      }
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<Clock::time_point, Alarm*> alarms_;
};

}  // namespace

absl::Time MonotonicNow() {
  if (SimulatedRuntime != nullptr) return SimulatedRuntime()->Now();
  return absl::UnixEpoch() + absl::FromChrono(Clock::now().time_since_epoch());
}

void Await(absl::Mutex* mu, const absl::Condition& condition) {
  if (SimulatedRuntime != nullptr) {
    SimulatedRuntime()->AwaitUntil(mu, condition, absl::InfiniteFuture());
  } else {
    mu->Await(condition);
  }
}

bool AwaitFor(absl::Mutex* mu, const absl::Condition& condition,
              absl::Duration timeout) {
  if (SimulatedRuntime != nullptr) {
    return SimulatedRuntime()->AwaitUntil(mu, condition,
                                          MonotonicNow() + timeout);
  }
  if (condition.Eval()) return true;
  if (timeout <= absl::ZeroDuration()) return false;
  if (timeout > kLongestTimeout) {
    mu->Await(condition);
    return true;
  }
  const Clock::time_point time =
      Clock::now() + absl::ToChronoNanoseconds(timeout);
  Alarm alarm;
  alarm.mu = mu;
  Alarms::Get()->Set(time, &alarm);
  const auto over = [&] { return alarm.rung || condition.Eval(); };
  mu->Await(absl::Condition(&over));
  if (!alarm.rung && !Alarms::Get()->Remove(time, &alarm)) {
    mu->Await(absl::Condition(&alarm.rung));
  }
  return condition.Eval();
}

bool AwaitUntil(absl::Mutex* mu, const absl::Condition& condition,
                absl::Time deadline) {
  return AwaitFor(mu, condition, deadline - MonotonicNow());
}

void Sleep(absl::Duration duration) {
  bool never = false;
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  AwaitFor(&mu, absl::Condition(&never), duration);
}

}  // namespace tributary
