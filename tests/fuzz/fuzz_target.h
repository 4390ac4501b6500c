// What a fuzz target defines: libFuzzer's entry point, which
// replay_main.cc calls too.
#ifndef TRIBUTARY_TESTS_FUZZ_FUZZ_TARGET_H_
#define TRIBUTARY_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Any bytes. Returns 0; a fault is a crash.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Ends the program if a promise is broken, in optimized builds too.
#define TRIBUTARY_FUZZ_CHECK(condition)                               \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                   #condition);                                       \
      std::abort();                                                   \
    }                                                                 \
  } while (false)

#endif  // TRIBUTARY_TESTS_FUZZ_FUZZ_TARGET_H_
