#include "worker/device/cpu/products/gemm.h"

#include "oneapi/dnnl/dnnl.h"
#include "worker/device/cpu/products/one_thread.h"

namespace tributary::cpu {

void Gemm(int64_t m, int64_t n, int64_t k, Operand a, Operand b,
          bool accumulate, float* c, int64_t c_stride) {
  const OneThread one_thread;
  dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', m, n, k, 1.0f,
             a.data, a.stride, b.data, b.stride, accumulate ? 1.0f : 0.0f, c,
             c_stride);
}

}  // namespace tributary::cpu
