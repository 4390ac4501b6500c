#include <cstdint>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/elementwise.h"
#include "worker/device/cuda/kernels/map.h"

namespace tributary::cuda {

cudaError_t FindKernels() {
  cudaFuncAttributes attributes;
  const auto probe = [] __device__(int64_t) {};
  return cudaFuncGetAttributes(&attributes, &ForEachKernel<decltype(probe)>);
}

template <typename From, typename To>
void Convert(Stream& stream, int64_t count, const From* from, To* to) {
  Map(stream, "Convert", count, from, static_cast<const From*>(nullptr), to,
      [] __device__(float x, float) { return x; });
}

template <typename T>
void Add(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "Add", count, x, static_cast<const T*>(y), y,
      [] __device__(float a, float b) { return b + a; });
}

void SetRandomBase(Stream& stream, const RandomBase& value, RandomBase* base) {
  ForEach(stream, "SetRandomBase", 1,
          [=] __device__(int64_t) { *base = value; });
}

template void Convert(Stream&, int64_t, const float*, float*);
template void Convert(Stream&, int64_t, const float*, Bfloat16*);
template void Convert(Stream&, int64_t, const Bfloat16*, float*);

template void Add(Stream&, int64_t, const float*, float*);
template void Add(Stream&, int64_t, const Bfloat16*, Bfloat16*);

}  // namespace tributary::cuda
