// What a thread computes, for the line that a crash writes.
#ifndef TRIBUTARY_COMMON_BASE_CRASH_CONTEXT_H_
#define TRIBUTARY_COMMON_BASE_CRASH_CONTEXT_H_

#include <cstdint>

namespace tributary {

// The layer and the micro-batch that a thread computes. The fields are volatile
// because a signal handler, which runs on the same thread, reads them (see
// common/os/crash_handler.h).
struct CrashContext {
  const char* volatile layer = nullptr;  // Null: no layer.
  bool volatile backward = false;
  int64_t volatile step = -1;  // From 0; -1: no micro-batch.
  int volatile micro_batch = -1;
};

// Returns the context of the current thread, to set its fields with
// CrashScopeOfMicroBatch and CrashScopeOfLayer. The first call on a thread may
// allocate memory.
CrashContext* ThisThreadsCrashContext();

// Returns the context of the current thread, or null if the thread has never
// called ThisThreadsCrashContext. May be called in a signal handler.
const CrashContext* FindCrashContext();

// While an object of this class exists, the current thread computes a
// micro-batch of step `step`.
class CrashScopeOfMicroBatch {
 public:
  CrashScopeOfMicroBatch(int64_t step, int micro_batch)
      : context_(ThisThreadsCrashContext()) {
    context_->micro_batch = micro_batch;
    context_->step = step;
  }
  ~CrashScopeOfMicroBatch() { context_->step = -1; }
  CrashScopeOfMicroBatch(const CrashScopeOfMicroBatch&) = delete;
  CrashScopeOfMicroBatch& operator=(const CrashScopeOfMicroBatch&) = delete;

 private:
  CrashContext* const context_;
};

// While an object of this class exists, the current thread computes a layer.
class CrashScopeOfLayer {
 public:
  // `name` must outlive this object.
  CrashScopeOfLayer(const char* name, bool backward)
      : context_(ThisThreadsCrashContext()) {
    context_->backward = backward;
    context_->layer = name;
  }
  ~CrashScopeOfLayer() { context_->layer = nullptr; }
  CrashScopeOfLayer(const CrashScopeOfLayer&) = delete;
  CrashScopeOfLayer& operator=(const CrashScopeOfLayer&) = delete;

 private:
  CrashContext* const context_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_CRASH_CONTEXT_H_
