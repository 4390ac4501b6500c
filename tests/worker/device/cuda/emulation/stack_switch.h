// Functions that run on stacks of their own and continue each other.
#ifndef TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_STACK_SWITCH_H_
#define TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_STACK_SWITCH_H_

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulated_gpu {

// A place to continue at: that of the last SwitchStack away from it, or the
// beginning of a function. Neither copied nor moved. What POSIX calls a context
// without its signal mask, which swapcontext saves by a system call: kernels
// wait millions of times. On other processors than x86-64 it is such a context.
class SavedStack {
 public:
  SavedStack() = default;
  SavedStack(const SavedStack&) = delete;
  SavedStack& operator=(const SavedStack&) = delete;

  // Makes this place the beginning of `body`, which must not return and must
  // not throw. The stack must live as long as the place is continued at.
  void Begin(char* stack, size_t bytes, void (*body)());

 private:
  friend void SwitchStack(SavedStack* from, SavedStack* to);
#ifdef __x86_64__
  void* top_ = nullptr;
#else
  ucontext_t context_;
#endif
};

// Continues at `to`. Returns when something continues at `from`. The two must
// belong to the same thread.
void SwitchStack(SavedStack* from, SavedStack* to);

}  // namespace emulated_gpu

#endif  // TRIBUTARY_TESTS_WORKER_DEVICE_CUDA_EMULATION_STACK_SWITCH_H_
