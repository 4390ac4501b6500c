// What malloc does with memory that the process frees.
#ifndef TRIBUTARY_COMMON_OS_FREED_MEMORY_H_
#define TRIBUTARY_COMMON_OS_FREED_MEMORY_H_

namespace tributary {

// Makes malloc keep what the process frees, unless the environment configures
// malloc (MALLOC_..., GLIBC_TUNABLES). gRPC allocates and frees megabytes of
// memory with every message, and so do training steps. Returning the pages to
// the kernel in between means clearing and mapping them again, which costs a
// fifth of the exchange's time on the wire. Thread-safe.
void KeepFreedMemory();

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_FREED_MEMORY_H_
