#include "tests/simulation/world/fibers.h"

#include <cxxabi.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <utility>

// Sanitizers must be told of fibers.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace tributary::simulation {
namespace {

#ifdef __SANITIZE_ADDRESS__
void BeginSwitch(void** fake_stack, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
void EndSwitch(void* fake_stack, const void** stack, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
}
#else
void BeginSwitch(void**, const void*, size_t) {}
void EndSwitch(void*, const void**, size_t*) {}
#endif

#ifdef __SANITIZE_THREAD__
void* CurrentFiber() { return __tsan_get_current_fiber(); }
void* CreateFiber() { return __tsan_create_fiber(0); }
void DestroyFiber(void* fiber) { __tsan_destroy_fiber(fiber); }
void SwitchTo(void* fiber) { __tsan_switch_to_fiber(fiber, 0); }
#else
void* CurrentFiber() { return nullptr; }
void* CreateFiber() { return nullptr; }
void DestroyFiber(void*) {}
void SwitchTo(void*) {}
#endif

constexpr size_t kStackBytes = 512 << 10;
// Delay between the end of a wait and the return from it.
constexpr absl::Duration kLongestWake = absl::Microseconds(50);
// A thread that waits more often without waiting at all is in an endless loop.
constexpr int64_t kMostWaits = 1000000;

// Thrown by waits of a process that has ended.
struct ProcessEnded {};

[[noreturn]] void Fail(const char* what) {
  std::fprintf(stderr, "simulation: %s\n", what);
  std::abort();
}

// The exceptions in flight, which the C++ runtime keeps by thread.
struct Exceptions {
  void Save() { std::memcpy(this, abi::__cxa_get_globals(), sizeof(*this)); }
  void Restore() const {
    std::memcpy(abi::__cxa_get_globals(), this, sizeof(*this));
  }
  void* caught = nullptr;
  unsigned int uncaught = 0;
};

// A place to run: a fiber's, or that of the event loop.
struct Context {
  ucontext_t context;
  const void* stack = nullptr;
  size_t stack_bytes = 0;
  void* sanitizer = nullptr;
  void* fake_stack = nullptr;
  Exceptions exceptions;
};

// Continues at `to`. `last`: this place is not returned to.
void Switch(Context* from, Context* to, bool last = false) {
  from->exceptions.Save();
  to->exceptions.Restore();
  SwitchTo(to->sanitizer);
  BeginSwitch(last ? nullptr : &from->fake_stack, to->stack, to->stack_bytes);
  swapcontext(&from->context, &to->context);
  EndSwitch(from->fake_stack, nullptr, nullptr);
}

// Stacks are kept for later fibers, also of later histories.
std::vector<std::unique_ptr<char[]>>& FreeStacks() {
  static auto* const stacks = new std::vector<std::unique_ptr<char[]>>();
  return *stacks;
}

Context loop_context;
Fibers* running_fibers = nullptr;

}  // namespace

class Fibers::Fiber : public std::enable_shared_from_this<Fibers::Fiber> {
 public:
  enum class State { kNew, kWaiting, kWaking, kRunning, kEnded };

  Fiber(std::shared_ptr<Life> life, std::function<void()> work)
      : process(std::move(life)), body(std::move(work)) {}
  ~Fiber() { FreeStack(); }

  void MakeStack() {
    if (FreeStacks().empty()) {
      stack.reset(new char[kStackBytes]);
    } else {
      stack = std::move(FreeStacks().back());
      FreeStacks().pop_back();
    }
    place.stack = stack.get();
    place.stack_bytes = kStackBytes;
    place.sanitizer = CreateFiber();
    getcontext(&place.context);
    place.context.uc_stack.ss_sp = stack.get();
    place.context.uc_stack.ss_size = kStackBytes;
    place.context.uc_link = nullptr;  // Main does not return.
    makecontext(&place.context, &Fibers::Main, 0);
  }
  void FreeStack() {
    if (stack == nullptr) return;
    DestroyFiber(place.sanitizer);
    FreeStacks().push_back(std::move(stack));
  }
  bool Ready() const { return state == State::kWaiting && condition->Eval(); }

  const std::shared_ptr<Life> process;
  std::function<void()> body;
  State state = State::kNew;
  Context place;
  std::unique_ptr<char[]> stack;
  Context* resumer = nullptr;
  Fiber* resumer_fiber = nullptr;
  const absl::Condition* condition = nullptr;
  int64_t waits = 0;
  // The process has ended, and this fiber must, too: its waits throw.
  bool unwinding = false;
};

class Fibers::Handle final : public Runtime::Started {
 public:
  Handle(Fibers* fibers, std::shared_ptr<Fiber> fiber)
      : fibers_(fibers), fiber_(std::move(fiber)) {}

  void Join() override {
    if (fiber_->process->gone()) {
      if (fiber_->state == Fiber::State::kRunning) Fail("joins its caller");
      fibers_->Finish(fiber_.get());
      return;
    }
    const auto ended = [this] { return fiber_->state == Fiber::State::kEnded; };
    absl::Mutex mu;
    absl::MutexLock lock(&mu);
    fibers_->AwaitUntil(&mu, absl::Condition(&ended), absl::InfiniteFuture());
  }

 private:
  Fibers* const fibers_;
  const std::shared_ptr<Fiber> fiber_;
};

Fibers::Fibers(EventLoop* loop, Random* random) : loop_(loop), random_(random) {
  running_fibers = this;
  loop_context.sanitizer = CurrentFiber();
}

Fibers::~Fibers() {
  for (const auto& [process, fibers] : fibers_) {
    for (const std::shared_ptr<Fiber>& fiber : fibers) {
      if (fiber->state != Fiber::State::kEnded) {
        Fail("a process has ended without its threads");
      }
    }
  }
  running_fibers = nullptr;
}

std::shared_ptr<Fibers::Fiber> Fibers::Add(std::shared_ptr<Life> process,
                                           std::function<void()> body) {
  auto fiber = std::make_shared<Fiber>(process, std::move(body));
  if (process->gone()) {
    fiber->state = Fiber::State::kEnded;
    return fiber;
  }
  FiberList& fibers = fibers_[process->process];
  fibers.erase(std::remove_if(fibers.begin(), fibers.end(),
                              [](const auto& other) {
                                return other->state == Fiber::State::kEnded;
                              }),
               fibers.end());
  fibers.push_back(fiber);
  loop_->After(random_->Between(absl::Microseconds(1), kLongestWake), process,
               "-thread", [this, fiber] {
                 if (fiber->state == Fiber::State::kNew) Resume(fiber.get());
               });
  return fiber;
}

void Fibers::Start(std::shared_ptr<Life> process, std::function<void()> body) {
  Add(std::move(process), std::move(body));
}

std::unique_ptr<Runtime::Started> Fibers::Start(std::function<void()> body) {
  Life* life = current_ != nullptr ? current_->process.get() : loop_->running();
  if (life == nullptr) Fail("a thread outside of all processes");
  return std::make_unique<Handle>(
      this, Add(life->root()->shared_from_this(), std::move(body)));
}

void Fibers::Resume(Fiber* fiber) {
  if (fiber->state == Fiber::State::kNew) fiber->MakeStack();
  fiber->state = Fiber::State::kRunning;
  fiber->resumer_fiber = current_;
  fiber->resumer = current_ == nullptr ? &loop_context : &current_->place;
  current_ = fiber;
  Switch(fiber->resumer, &fiber->place);
  if (fiber->state == Fiber::State::kEnded) fiber->FreeStack();
}

void Fibers::Suspend() {
  Fiber* const fiber = current_;
  waits_without_switch_ = 0;
  current_ = fiber->resumer_fiber;
  Switch(&fiber->place, fiber->resumer,
         /*last=*/fiber->state == Fiber::State::kEnded);
}

void Fibers::Main() {
  Fibers* const fibers = running_fibers;
  Fiber* const fiber = fibers->current_;
  EndSwitch(nullptr, &fiber->resumer->stack, &fiber->resumer->stack_bytes);
  try {
    fiber->body();
  } catch (const ProcessEnded&) {
  }
  fiber->body = nullptr;
  fiber->state = Fiber::State::kEnded;
  fibers->Suspend();
}

bool Fibers::AwaitUntil(absl::Mutex* mu, const absl::Condition& condition,
                        absl::Time deadline) {
  if (++waits_without_switch_ > kMostWaits) Fail("a thread never waits");
  if (condition.Eval()) return true;
  Fiber* const fiber = current_;
  if (fiber == nullptr) {
    if (deadline <= Now()) return false;
    Fail("an event waits, which only a thread may do");
  }
  while (!fiber->process->gone()) {
    if (deadline <= Now()) return false;
    const int64_t number = ++fiber->waits;
    if (deadline < absl::InfiniteFuture()) {
      loop_->At(deadline, fiber->process, "-timeout",
                [this, number, late = fiber->shared_from_this()] {
                  if (late->waits == number &&
                      late->state == Fiber::State::kWaiting) {
                    Resume(late.get());
                  }
                });
    }
    fiber->condition = &condition;
    fiber->state = Fiber::State::kWaiting;
    mu->Unlock();
    Suspend();
    mu->Lock();
    // A destructor may wait here for threads, which have been unwound before.
    if (condition.Eval()) return true;
    if (fiber->unwinding) throw ProcessEnded();
  }
  return AwaitAfterEnd(mu, condition);
}

void Fibers::WakeReady(const Life& process) {
  if (process.gone()) return;
  const auto found = fibers_.find(process.process);
  if (found == fibers_.end()) return;
  for (const std::shared_ptr<Fiber>& fiber : found->second) {
    if (!fiber->Ready()) continue;
    fiber->state = Fiber::State::kWaking;
    loop_->After(random_->Between(absl::Microseconds(1), kLongestWake),
                 fiber->process, "-wake", [this, fiber] {
                   if (fiber->state == Fiber::State::kWaking) {
                     Resume(fiber.get());
                   }
                 });
  }
}

void Fibers::Unwind(int process) {
  FiberList& fibers = fibers_[process];
  // The newest first: threads use what is on the stack of those that have
  // started them.
  while (!fibers.empty()) {
    const std::shared_ptr<Fiber> fiber = fibers.back();
    Finish(fiber.get());
    fibers.pop_back();
  }
}

void Fibers::Finish(Fiber* fiber) {
  if (fiber->state == Fiber::State::kNew) {
    fiber->body = nullptr;
    fiber->state = Fiber::State::kEnded;
  }
  fiber->unwinding = true;
  while (fiber->state == Fiber::State::kWaiting ||
         fiber->state == Fiber::State::kWaking) {
    Resume(fiber);
  }
}

void Fibers::RunReady(const Fiber& except, const absl::Condition& condition) {
  const FiberList fibers = fibers_[except.process->process];
  for (bool ran = true; ran && !condition.Eval();) {
    ran = false;
    for (const std::shared_ptr<Fiber>& fiber : fibers) {
      if (fiber.get() == &except) continue;
      if (fiber->state == Fiber::State::kNew ||
          fiber->state == Fiber::State::kWaking || fiber->Ready()) {
        Resume(fiber.get());
        ran = true;
      }
    }
  }
}

// Destructors may wait, for example until a queue has been written. They must
// not throw, so other threads do what they wait for.
bool Fibers::AwaitAfterEnd(absl::Mutex* mu, const absl::Condition& condition) {
  Fiber* const fiber = current_;
  if (fiber->unwinding && std::uncaught_exceptions() == 0) throw ProcessEnded();
  fiber->condition = &condition;
  mu->Unlock();
  if (fiber->unwinding) RunReady(*fiber, condition);
  while (!fiber->unwinding && !condition.Eval()) {
    fiber->state = Fiber::State::kWaiting;
    Suspend();
  }
  mu->Lock();
  if (condition.Eval()) return true;
  if (std::uncaught_exceptions() == 0) throw ProcessEnded();
  return false;
}

}  // namespace tributary::simulation
