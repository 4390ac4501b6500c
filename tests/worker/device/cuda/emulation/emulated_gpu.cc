#include "tests/worker/device/cuda/emulation/emulated_gpu.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/worker/device/cuda/emulation/stack_switch.h"

// Sanitizers must be told of fibers; without one, they need no telling. This
// file is compiled without ThreadSanitizer's checks, because the emulation's
// own memory is not the kernels'.
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
static void StartSwitch(void** fake_stack, const void* stack, size_t bytes) {
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
}
static void FinishSwitch(void* fake_stack, const void** stack, size_t* bytes) {
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
}
#else
static void StartSwitch(void**, const void*, size_t) {}
static void FinishSwitch(void*, const void**, size_t*) {}
#endif
#ifdef TRIBUTARY_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#else
static void* __tsan_get_current_fiber() { return nullptr; }
static void* __tsan_create_fiber(unsigned) { return nullptr; }
static void __tsan_switch_to_fiber(void*, unsigned) {}
static void __tsan_acquire(void*) {}
static void __tsan_release(void*) {}
static constexpr unsigned __tsan_switch_to_fiber_no_sync = 1;
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
  SavedStack place;
  std::unique_ptr<char[]> stack;
  // ThreadSanitizer's and AddressSanitizer's ideas of it.
  void* sanitizer = nullptr;
  void* fake_stack = nullptr;
  // What it gives to its warp, and, once all have given, what it gave.
  char given[kExchangedBytes], published[kExchangedBytes];
  std::vector<Copy> copies;  // Those that it has not waited for.
};

// No memcpy, which ThreadSanitizer would check. Shuffles do not order accesses
// to memory.
void CopyBytes(const char* from, size_t bytes, char* to) {
  using Word __attribute__((may_alias, aligned(1))) = uint64_t;
  size_t i = 0;
  for (; i + sizeof(Word) <= bytes; i += sizeof(Word)) {
    *reinterpret_cast<volatile Word*>(to + i) =
        *reinterpret_cast<const Word*>(from + i);
  }
  for (; i < bytes; ++i) static_cast<volatile char*>(to)[i] = from[i];
}

// The fibers of one block at a time, which are kept for the next.
class Scheduler {
 public:
  void SetOrder(ThreadOrder order, uint32_t seed) {
    order_ = order;
    random_.seed(seed);
  }

  // Numbers below `count` in the order of blocks or threads.
  std::vector<unsigned> Ordered(unsigned count) {
    std::vector<unsigned> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0u);
    if (order_ == ThreadOrder::kDescending) {
      std::reverse(numbers.begin(), numbers.end());
    } else if (order_ == ThreadOrder::kRandom) {
      std::shuffle(numbers.begin(), numbers.end(), random_);
    }
    return numbers;
  }

  void RunBlock(dim3 block, const std::function<void()>& body) {
    const int count = static_cast<int>(block.x * block.y * block.z);
    if (block.z != 1 || count > 1024) Fail("not a block that a GPU can run");
    body_ = &body;
    sanitizer_ = __tsan_get_current_fiber();
    count_ = count;
    if (static_cast<int>(fibers_.size()) < count) fibers_.resize(count);
    for (int i = 0; i < count; ++i) Prepare(fibers_[i]);
    shared_.clear();
    threads_ = Ordered(count);
    __tsan_release(&begin_);
    bool progress = true;
    while (progress) {
      const bool ran = RunReady();
      progress = ReleaseWarps() || ran || ReleaseBarrier();
    }
    __tsan_acquire(&end_);
    for (int i = 0; i < count; ++i) {
      if (fibers_[i].state == Fiber::State::kLeft) continue;
      SetThread(i);
      Fail("waits for threads that wait elsewhere or have left");
    }
  }

  void Wait(Fiber::State state) {
    Fiber& fiber = fibers_[current_];
    fiber.state = state;
    __tsan_switch_to_fiber(sanitizer_, __tsan_switch_to_fiber_no_sync);
    StartSwitch(&fiber.fake_stack, stack_, stack_bytes_);
    SwitchStack(&fiber.place, &scheduler_);
    Arrive();
  }

  void WaitAtBarrier() {
    // Two in turn: what other threads do behind this barrier, up to the next,
    // is not to be acquired here.
    char* const barrier = &barriers_[barrier_ % 2];
    __tsan_release(barrier);
    Wait(Fiber::State::kAtBarrier);
    __tsan_acquire(barrier);
  }

  void Begin() { __tsan_acquire(&begin_); }
  void Leave() {
    __tsan_release(&end_);
    Wait(Fiber::State::kLeft);
  }

  // Returns whether the block's threads call with this variable for the first
  // time.
  bool TakeShared(void* variable) {
    if (std::find(shared_.begin(), shared_.end(), variable) != shared_.end()) {
      return false;
    }
    shared_.push_back(variable);
    return true;
  }

  int current() const { return current_; }
  int count() const { return count_; }
  Fiber& fiber(int i) { return fibers_[i]; }

 private:
  static void Main();

  // In a fiber that goes on now.
  void Arrive() {
    FinishSwitch(fibers_[current_].fake_stack, &stack_, &stack_bytes_);
  }

  void Prepare(Fiber& fiber) {
    fiber.state = Fiber::State::kReady;
    if (fiber.stack != nullptr) return;
    fiber.stack.reset(new char[kStackBytes]);
    fiber.sanitizer = __tsan_create_fiber(0);
    fiber.place.Begin(fiber.stack.get(), kStackBytes, &Scheduler::Main);
  }

  void SetThread(int i) {
    current_ = i;
    threadIdx.x = i % blockDim.x;
    threadIdx.y = i / blockDim.x;
    threadIdx.z = 0;
  }

  // Each of the following says whether it did anything.

  bool RunReady() {
    bool ran = false;
    // The warps that run now, as bits.
    uint32_t warps = ~0u;
    if (order_ == ThreadOrder::kRandom) {
      threads_ = Ordered(count_);
      warps = static_cast<uint32_t>(random_());
    }
    for (const unsigned i : threads_) {
      if (fibers_[i].state != Fiber::State::kReady) continue;
      if ((warps >> (i / kWarp) & 1) == 0) {
        ran = true;  // In a later call.
        continue;
      }
      SetThread(static_cast<int>(i));
      __tsan_switch_to_fiber(fibers_[i].sanitizer,
                             __tsan_switch_to_fiber_no_sync);
      StartSwitch(&fake_stack_, fibers_[i].stack.get(), kStackBytes);
      SwitchStack(&scheduler_, &fibers_[i].place);
      FinishSwitch(fake_stack_, nullptr, nullptr);
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
        CopyBytes(fibers_[i].given, kExchangedBytes, fibers_[i].published);
        fibers_[i].state = Fiber::State::kReady;
      }
      released = true;
    }
    return released;
  }

  bool ReleaseBarrier() {
    bool waiting = false;
    for (int i = 0; i < count_; ++i) {
      if (fibers_[i].state == Fiber::State::kInExchange ||
          fibers_[i].state == Fiber::State::kReady) {
        return false;
      }
      waiting = waiting || fibers_[i].state == Fiber::State::kAtBarrier;
    }
    for (int i = 0; i < count_; ++i) {
      if (fibers_[i].state == Fiber::State::kAtBarrier) {
        fibers_[i].state = Fiber::State::kReady;
      }
    }
    if (waiting) ++barrier_;
    return waiting;
  }

  ThreadOrder order_ = ThreadOrder::kAscending;
  std::mt19937 random_;
  std::vector<unsigned> threads_;  // In their order.
  std::vector<void*> shared_;      // Variables of TakeShared.
  // What ThreadSanitizer takes for the locks that order a block's threads: its
  // begin, its end, and its barriers, of which `barrier_` have been passed.
  char begin_ = 0, end_ = 0, barriers_[2] = {};
  int64_t barrier_ = 0;
  const std::function<void()>* body_ = nullptr;
  int count_ = 0;
  int current_ = 0;
  SavedStack scheduler_;
  // The sanitizers' ideas of the scheduler, and the stack that it runs on.
  void* sanitizer_ = nullptr;
  void* fake_stack_ = nullptr;
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  std::deque<Fiber> fibers_;
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
    Gpu().Begin();
    (*Gpu().body_)();
    if (!Gpu().fiber(Gpu().current()).copies.empty()) {
      Fail("leaves before its copies have ended");
    }
    Gpu().Leave();  // Until the next block.
  }
}

}  // namespace

void SetThreadOrder(ThreadOrder order, uint32_t seed) {
  absl::MutexLock lock(&mutex);
  Gpu().SetOrder(order, seed);
}

void Run(dim3 grid, dim3 block, const std::function<void()>& body) {
  absl::MutexLock lock(&mutex);
  gridDim = grid;
  blockDim = block;
  blockIdx.y = blockIdx.z = 0;
  if (grid.y != 1 || grid.z != 1) Fail("only grids of one dimension work");
  for (const unsigned i : Gpu().Ordered(grid.x)) {
    blockIdx.x = i;
    Gpu().RunBlock(block, body);
  }
}

void WaitForBlock() { Gpu().WaitAtBarrier(); }

void BeginShared(void* variable, size_t bytes) {
  if (!Gpu().TakeShared(variable)) return;
  // No memset, which ThreadSanitizer would take for this thread's accesses.
  auto* const at = static_cast<volatile char*>(variable);
  for (size_t i = 0; i < bytes; ++i) at[i] = '\xff';
}

int Lane() { return Gpu().current() % kWarp; }

void ExchangeBytes(unsigned mask, void* value, size_t bytes, int source) {
  if (mask != 0xffffffffu || bytes > 8) {
    Fail("only shuffles of whole warps and up to 8 bytes work");
  }
  const int warp = Gpu().current() / kWarp * kWarp;
  if (warp + source >= Gpu().count()) Fail("shuffle with a lane that is none");
  CopyBytes(static_cast<char*>(value), bytes,
            Gpu().fiber(Gpu().current()).given);
  Gpu().Wait(Fiber::State::kInExchange);
  CopyBytes(Gpu().fiber(warp + source).published, bytes,
            static_cast<char*>(value));
}

void GatherBytes(const void* value, size_t bytes, void* all) {
  const int warp = Gpu().current() / kWarp * kWarp;
  if (bytes > kExchangedBytes || warp + kWarp > Gpu().count()) {
    Fail("only whole warps gather, and up to 32 bytes");
  }
  CopyBytes(static_cast<const char*>(value), bytes,
            Gpu().fiber(Gpu().current()).given);
  Gpu().Wait(Fiber::State::kInExchange);
  for (int lane = 0; lane < kWarp; ++lane) {
    CopyBytes(Gpu().fiber(warp + lane).published, bytes,
              static_cast<char*>(all) + lane * bytes);
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
