// Treats numbers with a magnitude below 2^-126 as zero within a scope.
#ifndef TRIBUTARY_COMMON_NUMERICS_FLUSH_DENORMALS_H_
#define TRIBUTARY_COMMON_NUMERICS_FLUSH_DENORMALS_H_

#include <xmmintrin.h>

namespace tributary {

// Sets flush-to-zero (results) and denormals-are-zero (operands) for the
// calling thread, and restores the previous settings at the end of the scope.
// Without this, a decaying average of gradients that have become zero stays
// denormal indefinitely, and arithmetic with denormal numbers is about a
// hundred times slower.
//
// The loops whose results must be equal in all processes (vector_ops.h,
// optimizer.h) use this class themselves, so their results do not depend on the
// settings of the calling thread. Put such loops into functions that are not
// inlined: otherwise the compiler may move arithmetic ahead of the construction
// of this object.
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
