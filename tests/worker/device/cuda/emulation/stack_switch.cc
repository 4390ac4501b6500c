#include "tests/worker/device/cuda/emulation/stack_switch.h"

#include <cstdint>

namespace emulated_gpu {

#ifdef __x86_64__

// Saves the registers that a call preserves on the current stack, its top in
// *from, and restores those of the stack with the top `to`.
extern "C" void TributarySwitchStack(void** from, void* to);
asm(R"(
  .text
  .type TributarySwitchStack, @function
TributarySwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size TributarySwitchStack, . - TributarySwitchStack
)");

void SavedStack::Begin(char* stack, size_t bytes, void (*body)()) {
  constexpr int kRegisters = 6;
  const auto end = reinterpret_cast<uintptr_t>(stack + bytes);
  auto* const top = reinterpret_cast<void**>(end / 16 * 16);
  // The address that `body` would return to, where debuggers end their traces.
  top[-1] = nullptr;
  top[-2] = reinterpret_cast<void*>(body);
  for (int i = 0; i < kRegisters; ++i) top[-3 - i] = nullptr;
  top_ = top - 2 - kRegisters;
}

void SwitchStack(SavedStack* from, SavedStack* to) {
  TributarySwitchStack(&from->top_, to->top_);
}

#else

void SavedStack::Begin(char* stack, size_t bytes, void (*body)()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack;
  context_.uc_stack.ss_size = bytes;
  context_.uc_link = nullptr;  // `body` does not return.
  makecontext(&context_, body, 0);
}

void SwitchStack(SavedStack* from, SavedStack* to) {
  swapcontext(&from->context_, &to->context_);
}

#endif

}  // namespace emulated_gpu
