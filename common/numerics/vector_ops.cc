#include "common/numerics/vector_ops.h"

#include "common/numerics/flush_denormals.h"
#include "common/numerics/simd.h"
#include "common/numerics/vector_kernels.h"

namespace tributary {
namespace {

TRIBUTARY_MULTIVERSION __attribute__((noinline)) void AddIntoBest(
    const float* x, float* sum, int64_t count) {
  vector_kernels::AddInto(x, sum, count);
}

TRIBUTARY_MULTIVERSION __attribute__((noinline)) void Sum2Best(const float* a,
                                                               const float* b,
                                                               float* out,
                                                               int64_t count) {
  vector_kernels::Sum2(a, b, out, count);
}

TRIBUTARY_MULTIVERSION __attribute__((noinline)) void SubtractBest(
    const float* a, const float* b, float* out, int64_t count) {
  vector_kernels::Subtract(a, b, out, count);
}

}  // namespace

void AddInto(const float* x, float* sum, int64_t count) {
  const FlushDenormals flush;
  AddIntoBest(x, sum, count);
}

void Sum2(const float* a, const float* b, float* out, int64_t count) {
  const FlushDenormals flush;
  Sum2Best(a, b, out, count);
}

void Subtract(const float* a, const float* b, float* out, int64_t count) {
  const FlushDenormals flush;
  SubtractBest(a, b, out, count);
}

}  // namespace tributary
