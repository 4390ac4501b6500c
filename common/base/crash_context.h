// What a thread computes, for the line that a crash writes.
#ifndef TRIBUTARY_COMMON_BASE_CRASH_CONTEXT_H_
#define TRIBUTARY_COMMON_BASE_CRASH_CONTEXT_H_

#include <cstdint>

namespace tributary {

// The layer and the micro-batch that the current thread computes. The fields
// are volatile because a signal handler, which runs on the same thread, reads
// them (see common/os/crash_handler.h). Set them with CrashScopeOfMicroBatch
// and CrashScopeOfLayer.
struct CrashContext {
  const char* volatile layer = nullptr;  // Null: no layer.
  bool volatile backward = false;
  int64_t volatile step = -1;  // From 0; -1: no micro-batch.
  int volatile micro_batch = -1;
};

// The handler must not allocate memory, so the variable is in the static TLS
// block also when this code is part of a shared library.
inline thread_local CrashContext __attribute__((tls_model("initial-exec")))
this_threads_crash_context;

// While an object of this class exists, the current thread computes a
// micro-batch of step `step`.
class CrashScopeOfMicroBatch {
 public:
  CrashScopeOfMicroBatch(int64_t step, int micro_batch) {
    this_threads_crash_context.micro_batch = micro_batch;
    this_threads_crash_context.step = step;
  }
  ~CrashScopeOfMicroBatch() { this_threads_crash_context.step = -1; }
  CrashScopeOfMicroBatch(const CrashScopeOfMicroBatch&) = delete;
  CrashScopeOfMicroBatch& operator=(const CrashScopeOfMicroBatch&) = delete;
};

// While an object of this class exists, the current thread computes a layer.
class CrashScopeOfLayer {
 public:
  // `name` must outlive this object.
  CrashScopeOfLayer(const char* name, bool backward) {
    this_threads_crash_context.backward = backward;
    this_threads_crash_context.layer = name;
  }
  ~CrashScopeOfLayer() { this_threads_crash_context.layer = nullptr; }
  CrashScopeOfLayer(const CrashScopeOfLayer&) = delete;
  CrashScopeOfLayer& operator=(const CrashScopeOfLayer&) = delete;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_CRASH_CONTEXT_H_
