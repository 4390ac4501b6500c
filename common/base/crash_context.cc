#include "common/base/crash_context.h"

#include <pthread.h>

namespace tributary {
namespace {

pthread_key_t CreateKey() {
  pthread_key_t key = 0;
  pthread_key_create(&key, /*destructor=*/nullptr);
  return key;
}

// Under which a thread has the address of its context. In a shared library, the
// first access of a thread to a thread_local variable allocates memory, which a
// signal handler must not do; pthread_getspecific does not.
const pthread_key_t context_key = CreateKey();

thread_local CrashContext context;

}  // namespace

CrashContext* ThisThreadsCrashContext() {
  if (pthread_getspecific(context_key) == nullptr) {
    pthread_setspecific(context_key, &context);
  }
  return &context;
}

const CrashContext* FindCrashContext() {
  return static_cast<const CrashContext*>(pthread_getspecific(context_key));
}

}  // namespace tributary
