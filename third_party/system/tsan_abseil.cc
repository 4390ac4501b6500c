// Makes ThreadSanitizer see Abseil's locks.
//
// The system's Abseil is not instrumented: to ThreadSanitizer its mutexes
// order nothing, and every use of what they guard looks like a race. These
// definitions take the place of the library's (the program's symbols come
// first, for the libraries that use Abseil too), tell ThreadSanitizer what is
// about to happen and call the library's. Abseil does the same when it is
// built with -fsanitize=thread. Linked by --config=tsan only.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <atomic>
#include <string>

#include "absl/base/config.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace {

#define TRIBUTARY_STRING_OF(x) #x
#define TRIBUTARY_STRING(x) TRIBUTARY_STRING_OF(x)

// Returns the library's definition of a member function, named by what follows
// "absl::<inline namespace>::" in its mangled name.
template <typename Function>
Function Real(const std::string& member, const std::string& prefix = "_ZN") {
  const std::string space = TRIBUTARY_STRING(ABSL_OPTION_INLINE_NAMESPACE_NAME);
  const std::string name =
      prefix + "4absl" + std::to_string(space.size()) + space + member;
  void* symbol = dlsym(RTLD_NEXT, name.c_str());
  if (symbol == nullptr) __builtin_trap();  // Not the Abseil we know.
  return reinterpret_cast<Function>(symbol);
}

class Operation;

// What a condition looks at, other threads may look at while this one waits.
void Publish(const absl::Condition& condition) {
  __tsan_release(const_cast<absl::Condition*>(&condition));
}

// What this thread is doing to a mutex: whose conditions it may evaluate.
thread_local Operation* current = nullptr;

// A lock or unlock that is under way, from construction to destruction. Within
// another of the same mutex it does nothing: the library calls itself.
class Operation {
 public:
  enum Kind { kLock, kUnlock };

  Operation(Kind kind, absl::Mutex* mutex, unsigned flags)
      : kind_(kind), mutex_(mutex), flags_(flags), outer_(current) {
    if (IsUnderWay(mutex)) return;
    Begin(kind_);
    current = this;
  }
  ~Operation() {
    if (current != this) return;
    current = outer_;
    End(kind_);
  }

  static bool IsUnderWay(absl::Mutex* mutex) {
    return current != nullptr && current->mutex_ == mutex;
  }

  // A try that failed, unless this is called.
  bool SetAcquired(bool acquired) {
    if (!acquired) flags_ |= __tsan_mutex_try_lock_failed;
    return acquired;
  }

  // Abseil evaluates conditions while it holds the mutex, on the way into or
  // out of it. Tell so, and resume the operation afterwards.
  template <typename Evaluate>
  bool EvaluateHeld(const Evaluate& evaluate) {
    current = nullptr;
    if (kind_ == kLock) {
      End(kLock);
    } else {
      End(kUnlock);
      Begin(kLock);
      End(kLock);
    }
    const bool result = evaluate();
    Begin(kUnlock);
    if (kind_ == kLock) {
      End(kUnlock);
      Begin(kLock);
    }
    current = this;
    return result;
  }

 private:
  void Begin(Kind kind) {
    if (kind == kLock) {
      __tsan_mutex_pre_lock(mutex_, flags_);
    } else {
      __tsan_mutex_pre_unlock(mutex_, flags_);
    }
  }
  void End(Kind kind) {
    if (kind == kLock) {
      __tsan_mutex_post_lock(mutex_, flags_, /*recursion=*/0);
    } else {
      __tsan_mutex_post_unlock(mutex_, flags_);
    }
  }

  const Kind kind_;
  absl::Mutex* const mutex_;
  unsigned flags_;
  Operation* const outer_;
};

// A wait that gives the mutex up and takes it again.
class Wait {
 public:
  Wait(absl::Mutex* mutex, unsigned flags)
      : lock_((Release(mutex, flags), Operation::kLock), mutex, flags) {}

 private:
  static void Release(absl::Mutex* mutex, unsigned flags) {
    if (Operation::IsUnderWay(mutex)) return;
    __tsan_mutex_pre_unlock(mutex, flags);
    __tsan_mutex_post_unlock(mutex, flags);
  }

  Operation lock_;
};

constexpr unsigned kExclusive = 0;
constexpr unsigned kShared = __tsan_mutex_read_lock;

// Of the holder of a mutex, from its state: Abseil's kMuReader bit.
unsigned HowHeld(intptr_t state) { return (state & 1) ? kShared : kExclusive; }

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static const auto real = Real<void (*)(Mutex*)>("5MutexD1Ev");
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
  real(this);
}

void Mutex::Lock() {
  static const auto real = Real<void (*)(Mutex*)>("5Mutex4LockEv");
  Operation lock(Operation::kLock, this, kExclusive);
  real(this);
}

void Mutex::Unlock() {
  static const auto real = Real<void (*)(Mutex*)>("5Mutex6UnlockEv");
  Operation unlock(Operation::kUnlock, this, kExclusive);
  real(this);
}

bool Mutex::TryLock() {
  static const auto real = Real<bool (*)(Mutex*)>("5Mutex7TryLockEv");
  Operation lock(Operation::kLock, this, kExclusive | __tsan_mutex_try_lock);
  return lock.SetAcquired(real(this));
}

void Mutex::ReaderLock() {
  static const auto real = Real<void (*)(Mutex*)>("5Mutex10ReaderLockEv");
  Operation lock(Operation::kLock, this, kShared);
  real(this);
}

void Mutex::ReaderUnlock() {
  static const auto real = Real<void (*)(Mutex*)>("5Mutex12ReaderUnlockEv");
  Operation unlock(Operation::kUnlock, this, kShared);
  real(this);
}

bool Mutex::ReaderTryLock() {
  static const auto real = Real<bool (*)(Mutex*)>("5Mutex13ReaderTryLockEv");
  Operation lock(Operation::kLock, this, kShared | __tsan_mutex_try_lock);
  return lock.SetAcquired(real(this));
}

void Mutex::LockWhen(const Condition& condition) {
  static const auto real = Real<void (*)(Mutex*, const Condition&)>(
      "5Mutex8LockWhenERKNS0_9ConditionE");
  Publish(condition);
  Operation lock(Operation::kLock, this, kExclusive);
  real(this, condition);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  static const auto real = Real<bool (*)(Mutex*, const Condition&, Duration)>(
      "5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  Publish(condition);
  Operation lock(Operation::kLock, this, kExclusive);
  return real(this, condition, timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  static const auto real = Real<bool (*)(Mutex*, const Condition&, Time)>(
      "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Publish(condition);
  Operation lock(Operation::kLock, this, kExclusive);
  return real(this, condition, deadline);
}

void Mutex::ReaderLockWhen(const Condition& condition) {
  static const auto real = Real<void (*)(Mutex*, const Condition&)>(
      "5Mutex14ReaderLockWhenERKNS0_9ConditionE");
  Publish(condition);
  Operation lock(Operation::kLock, this, kShared);
  real(this, condition);
}

bool Mutex::ReaderLockWhenWithTimeout(const Condition& condition,
                                      Duration timeout) {
  static const auto real = Real<bool (*)(Mutex*, const Condition&, Duration)>(
      "5Mutex25ReaderLockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  Publish(condition);
  Operation lock(Operation::kLock, this, kShared);
  return real(this, condition, timeout);
}

bool Mutex::ReaderLockWhenWithDeadline(const Condition& condition,
                                       Time deadline) {
  static const auto real = Real<bool (*)(Mutex*, const Condition&, Time)>(
      "5Mutex26ReaderLockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Publish(condition);
  Operation lock(Operation::kLock, this, kShared);
  return real(this, condition, deadline);
}

void Mutex::Await(const Condition& condition) {
  static const auto real = Real<void (*)(Mutex*, const Condition&)>(
      "5Mutex5AwaitERKNS0_9ConditionE");
  Wait wait(this, HowHeld(mu_.load(std::memory_order_relaxed)));
  real(this, condition);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  static const auto real = Real<bool (*)(Mutex*, const Condition&, Duration)>(
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE");
  Wait wait(this, HowHeld(mu_.load(std::memory_order_relaxed)));
  return real(this, condition, timeout);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  static const auto real = Real<bool (*)(Mutex*, const Condition&, Time)>(
      "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE");
  Wait wait(this, HowHeld(mu_.load(std::memory_order_relaxed)));
  return real(this, condition, deadline);
}

bool Condition::Eval() const {
  // Not a static constant: during an operation, ThreadSanitizer ignores the
  // guard of its initialization, and reports a race.
  static std::atomic<bool (*)(const Condition*)> found{nullptr};
  auto* real = found.load(std::memory_order_relaxed);
  if (real == nullptr) {
    real = Real<bool (*)(const Condition*)>("9Condition4EvalEv", "_ZNK");
    found.store(real, std::memory_order_relaxed);
  }
  if (current == nullptr) return real(this);
  return current->EvaluateHeld([this, real] {
    __tsan_acquire(const_cast<Condition*>(this));
    return real(this);
  });
}

void CondVar::Wait(Mutex* mutex) {
  static const auto real =
      Real<void (*)(CondVar*, Mutex*)>("7CondVar4WaitEPNS0_5MutexE");
  ::Wait wait(mutex, HowHeld(mutex->mu_.load(std::memory_order_relaxed)));
  real(this, mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  static const auto real = Real<bool (*)(CondVar*, Mutex*, Duration)>(
      "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE");
  ::Wait wait(mutex, HowHeld(mutex->mu_.load(std::memory_order_relaxed)));
  return real(this, mutex, timeout);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  static const auto real = Real<bool (*)(CondVar*, Mutex*, Time)>(
      "7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE");
  ::Wait wait(mutex, HowHeld(mutex->mu_.load(std::memory_order_relaxed)));
  return real(this, mutex, deadline);
}

// Notification and BlockingCounter have ways past their mutex, by an atomic.

void Notification::Notify() {
  static const auto real =
      Real<void (*)(Notification*)>("12Notification6NotifyEv");
  __tsan_release(&notified_yet_);
  real(this);
}

void Notification::WaitForNotification() const {
  static const auto real = Real<void (*)(const Notification*)>(
      "12Notification19WaitForNotificationEv", "_ZNK");
  real(this);
  __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  static const auto real = Real<bool (*)(const Notification*, Duration)>(
      "12Notification30WaitForNotificationWithTimeoutENS0_8DurationE", "_ZNK");
  const bool notified = real(this, timeout);
  if (notified) __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  static const auto real = Real<bool (*)(const Notification*, Time)>(
      "12Notification31WaitForNotificationWithDeadlineENS0_4TimeE", "_ZNK");
  const bool notified = real(this, deadline);
  if (notified) __tsan_acquire(const_cast<std::atomic<bool>*>(&notified_yet_));
  return notified;
}

bool BlockingCounter::DecrementCount() {
  static const auto real =
      Real<bool (*)(BlockingCounter*)>("15BlockingCounter14DecrementCountEv");
  __tsan_release(&count_);
  return real(this);
}

void BlockingCounter::Wait() {
  static const auto real =
      Real<void (*)(BlockingCounter*)>("15BlockingCounter4WaitEv");
  real(this);
  __tsan_acquire(&count_);
}

ABSL_NAMESPACE_END
}  // namespace absl
