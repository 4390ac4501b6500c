// Numbers below 2^-126 count as zero while an object of this class lives.
#ifndef TRIBUTARY_COMMON_NUMERICS_FLUSH_DENORMALS_H_
#define TRIBUTARY_COMMON_NUMERICS_FLUSH_DENORMALS_H_

#include <xmmintrin.h>

namespace tributary {

// Sets flush-to-zero (results) and denormals-are-zero (operands) for the
// calling thread, and restores its state at the end of the scope. A decaying
// average of gradients that have become zero stays denormal for ever, and
// arithmetic with such numbers takes a hundred times as long.
//
// The loops whose results processes must agree on (vector_ops.h, optimizer.h)
// set it themselves, so their bits do not depend on the caller's thread. Put
// such loops into functions of their own, not inlined: the compiler may move
// arithmetic past the construction of this object.
class FlushDenormals {
 public:
  FlushDenormals() : before_(_mm_getcsr()) {
    constexpr unsigned int kFlushToZero = 0x8000;
    constexpr unsigned int kDenormalsAreZero = 0x0040;
    _mm_setcsr(before_ | kFlushToZero | kDenormalsAreZero);
  }
  ~FlushDenormals() { _mm_setcsr(before_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
  const unsigned int before_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_NUMERICS_FLUSH_DENORMALS_H_
