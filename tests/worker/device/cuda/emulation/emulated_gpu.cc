#include "tests/worker/device/cuda/emulation/emulated_gpu.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "cuda_runtime.h"

// Sanitizers must be told of fibers; without one, they need no telling.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_start_switch_fiber(void**, const void*, size_t) {}
static void __sanitizer_finish_switch_fiber(void*, const void**, size_t*) {}
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#else
static void* __tsan_get_current_fiber() { return nullptr; }
static void* __tsan_create_fiber(unsigned) { return nullptr; }
static void __tsan_switch_to_fiber(void*, unsigned) {}
#endif

namespace emulated_gpu {

dim3 threadIdx, blockIdx, blockDim, gridDim;

void Fail(const char* what) {
  std::fprintf(stderr, "emulated GPU: thread %u of block %u: %s\n",
               threadIdx.x + threadIdx.y * blockDim.x, blockIdx.x, what);
  std::abort();
}

namespace {

constexpr int kWarp = 32;
constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kExchangedBytes = 32;

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

struct Fiber {
  enum class State { kReady, kAtBarrier, kInExchange, kLeft };

  State state = State::kReady;
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  // ThreadSanitizer's and AddressSanitizer's ideas of it.
  void* sanitizer = nullptr;
  void* fake_stack = nullptr;
  // What it gives to its warp, and, once all have given, what it gave.
  char given[kExchangedBytes], published[kExchangedBytes];
  std::vector<Copy> copies;  // Those that it has not waited for.
};

// The fibers of one block at a time, which are kept for the next.
class Scheduler {
 public:
  void SetOrder(ThreadOrder order) { order_ = order; }

  void RunBlock(dim3 block, const std::function<void()>& body) {
    const int count = static_cast<int>(block.x * block.y * block.z);
    if (block.z != 1 || count > 1024) Fail("not a block that a GPU can run");
    body_ = &body;
    sanitizer_ = __tsan_get_current_fiber();
    count_ = count;
    if (static_cast<int>(fibers_.size()) < count) fibers_.resize(count);
    for (int i = 0; i < count; ++i) Prepare(fibers_[i]);
    while (RunReady() || ReleaseWarps() || ReleaseBarrier()) {
    }
    for (int i = 0; i < count; ++i) {
      if (fibers_[i].state == Fiber::State::kLeft) continue;
      SetThread(i);
      Fail("waits for threads that wait elsewhere or have left");
    }
  }

  void Wait(Fiber::State state) {
    Fiber& fiber = fibers_[current_];
    fiber.state = state;
    __tsan_switch_to_fiber(sanitizer_, 0);
    __sanitizer_start_switch_fiber(&fiber.fake_stack, stack_, stack_bytes_);
    swapcontext(&fiber.context, &scheduler_);
    Arrive();
  }

  int current() const { return current_; }
  int count() const { return count_; }
  Fiber& fiber(int i) { return fibers_[i]; }

 private:
  static void Main();

  // In a fiber that goes on now.
  void Arrive() {
    __sanitizer_finish_switch_fiber(fibers_[current_].fake_stack, &stack_,
                                    &stack_bytes_);
  }

  void Prepare(Fiber& fiber) {
    fiber.state = Fiber::State::kReady;
    if (fiber.stack != nullptr) return;
    fiber.stack.reset(new char[kStackBytes]);
    fiber.sanitizer = __tsan_create_fiber(0);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;  // Main does not return.
    makecontext(&fiber.context, &Scheduler::Main, 0);
  }

  void SetThread(int i) {
    current_ = i;
    threadIdx = dim3(i % blockDim.x, i / blockDim.x, 0);
  }

  // Each of the following says whether it did anything.

  bool RunReady() {
    bool ran = false;
    for (int n = 0; n < count_; ++n) {
      const int i = order_ == ThreadOrder::kAscending ? n : count_ - 1 - n;
      if (fibers_[i].state != Fiber::State::kReady) continue;
      SetThread(i);
      __tsan_switch_to_fiber(fibers_[i].sanitizer, 0);
      __sanitizer_start_switch_fiber(&fake_stack_, fibers_[i].stack.get(),
                                     kStackBytes);
      swapcontext(&scheduler_, &fibers_[i].context);
      __sanitizer_finish_switch_fiber(fake_stack_, nullptr, nullptr);
      ran = true;
    }
    return ran;
  }

  bool ReleaseWarps() {
    bool released = false;
    for (int first = 0; first < count_; first += kWarp) {
      const int end = std::min(first + kWarp, count_);
      bool all = true;
      for (int i = first; i < end; ++i) {
        all = all && fibers_[i].state == Fiber::State::kInExchange;
      }
      if (!all) continue;
      for (int i = first; i < end; ++i) {
        std::memcpy(fibers_[i].published, fibers_[i].given, kExchangedBytes);
        fibers_[i].state = Fiber::State::kReady;
      }
      released = true;
    }
    return released;
  }

  bool ReleaseBarrier() {
    bool waiting = false;
    for (int i = 0; i < count_; ++i) {
      if (fibers_[i].state == Fiber::State::kInExchange) return false;
      waiting = waiting || fibers_[i].state == Fiber::State::kAtBarrier;
    }
    for (int i = 0; i < count_; ++i) {
      if (fibers_[i].state == Fiber::State::kAtBarrier) {
        fibers_[i].state = Fiber::State::kReady;
      }
    }
    return waiting;
  }

  ThreadOrder order_ = ThreadOrder::kAscending;
  const std::function<void()>* body_ = nullptr;
  int count_ = 0;
  int current_ = 0;
  ucontext_t scheduler_;
  // The sanitizers' ideas of the scheduler, and the stack that it runs on.
  void* sanitizer_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  std::deque<Fiber> fibers_;  // Contexts point into themselves.
};

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);

// Used with `mutex` held. There is one GPU, as there is one threadIdx.
Scheduler& Gpu() {
  static auto* const scheduler = new Scheduler;
  return *scheduler;
}

// Begun once for each fiber: ThreadSanitizer would take the frames of one that
// was begun again for ever deeper calls.
void Scheduler::Main() {
  Gpu().Arrive();
  while (true) {
    (*Gpu().body_)();
    if (!Gpu().fiber(Gpu().current()).copies.empty()) {
      Fail("leaves before its copies have ended");
    }
    Gpu().Wait(Fiber::State::kLeft);  // Until the next block.
  }
}

}  // namespace

void SetThreadOrder(ThreadOrder order) {
  absl::MutexLock lock(&mutex);
  Gpu().SetOrder(order);
}

void Run(dim3 grid, dim3 block, const std::function<void()>& body) {
  absl::MutexLock lock(&mutex);
  gridDim = grid;
  blockDim = block;
  if (grid.y != 1 || grid.z != 1) Fail("only grids of one dimension work");
  for (unsigned i = 0; i < grid.x; ++i) {
    blockIdx = dim3(i, 0, 0);
    Gpu().RunBlock(block, body);
  }
}

void WaitForBlock() { Gpu().Wait(Fiber::State::kAtBarrier); }

int Lane() { return Gpu().current() % kWarp; }

void ExchangeBytes(unsigned mask, void* value, size_t bytes, int source) {
  if (mask != 0xffffffffu || bytes > 8) {
    Fail("only shuffles of whole warps and up to 8 bytes work");
  }
  const int warp = Gpu().current() / kWarp * kWarp;
  if (warp + source >= Gpu().count()) Fail("shuffle with a lane that is none");
  std::memcpy(Gpu().fiber(Gpu().current()).given, value, bytes);
  Gpu().Wait(Fiber::State::kInExchange);
  std::memcpy(value, Gpu().fiber(warp + source).published, bytes);
}

void GatherBytes(const void* value, size_t bytes, void* all) {
  const int warp = Gpu().current() / kWarp * kWarp;
  if (bytes > kExchangedBytes || warp + kWarp > Gpu().count()) {
    Fail("only whole warps gather, and up to 32 bytes");
  }
  std::memcpy(Gpu().fiber(Gpu().current()).given, value, bytes);
  Gpu().Wait(Fiber::State::kInExchange);
  for (int lane = 0; lane < kWarp; ++lane) {
    std::memcpy(static_cast<char*>(all) + lane * bytes,
                Gpu().fiber(warp + lane).published, bytes);
  }
}

void BeginCopy(void* to, const void* from, size_t bytes) {
  std::memset(to, 0xff, bytes);
  Gpu().fiber(Gpu().current()).copies.push_back({to, from, bytes});
}

void WaitForCopies() {
  std::vector<Copy>& copies = Gpu().fiber(Gpu().current()).copies;
  for (const Copy& copy : copies) {
    if (copy.from == nullptr) {
      std::memset(copy.to, 0, copy.bytes);
    } else {
      std::memcpy(copy.to, copy.from, copy.bytes);
    }
  }
  copies.clear();
}

}  // namespace emulated_gpu
