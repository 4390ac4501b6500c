// The entry point that every fuzz target defines. libFuzzer calls it, and so
// does replay_main.cc.
#ifndef TRIBUTARY_TESTS_FUZZ_FUZZ_TARGET_H_
#define TRIBUTARY_TESTS_FUZZ_FUZZ_TARGET_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Passes `size` arbitrary bytes to the code under test. Returns 0. Ends the
// process if it finds an error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Ends the process if `condition` is false, in optimized builds, too.
#define TRIBUTARY_FUZZ_CHECK(condition)                               \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                   #condition);                                       \
      std::abort();                                                   \
    }                                                                 \
  } while (false)

#endif  // TRIBUTARY_TESTS_FUZZ_FUZZ_TARGET_H_
