#include "common/cuda/launch.h"
#include "worker/device/cuda/elementwise.h"

namespace tributary::cuda {
namespace {

constexpr float kSqrt2OverPi = 0.7978845608f;
constexpr float kGeluCubic = 0.044715f;

// 0.5 (1 + tanh(u)) is the logistic function of 2 u; `rest` is 1 - gate. Both
// are made of exp(-2 |u|), which cannot overflow, and keep their relative
// precision near 0.
struct GeluGates {
  float gate, rest;
};

__device__ inline GeluGates GeluGatesOf(float x) {
  const float u = kSqrt2OverPi * (x + kGeluCubic * x * x * x);
  const float small = expf(-2.0f * fabsf(u));
  const float larger = 1.0f / (1.0f + small);
  const float smaller = small * larger;
  return u >= 0.0f ? GeluGates{larger, smaller} : GeluGates{smaller, larger};
}

// Neighbours, read and written at once.
template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T values[4];
};

template <typename T>
bool IsAligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(Four<T>) == 0;
}

__device__ inline float Drop(uint32_t number, float rate, float scale,
                             float x) {
  return UniformFloat(number) >= rate ? x * scale : 0.0f;
}

}  // namespace

cudaError_t FindKernels() {
  cudaFuncAttributes attributes;
  const auto probe = [] __device__(int64_t) {};
  return cudaFuncGetAttributes(&attributes, &ForEachKernel<decltype(probe)>);
}

template <typename From, typename To>
void Convert(Stream& stream, int64_t count, const From* from, To* to) {
  ForEach(stream, "Convert", count,
          [=] __device__(int64_t i) { to[i] = float{from[i]}; });
}

template <typename T>
void Add(Stream& stream, int64_t count, const T* x, T* y) {
  ForEach(stream, "Add", count,
          [=] __device__(int64_t i) { y[i] = float{y[i]} + float{x[i]}; });
}

template <typename T>
void ReluForward(Stream& stream, int64_t count, const T* x, T* y) {
  ForEach(stream, "ReluForward", count, [=] __device__(int64_t i) {
    const float v = x[i];
    y[i] = v < 0.0f ? 0.0f : v;
  });
}

template <typename T>
void ReluBackward(Stream& stream, int64_t count, const T* y, const T* dy,
                  T* dx) {
  ForEach(stream, "ReluBackward", count, [=] __device__(int64_t i) {
    dx[i] = y[i] > 0.0f ? float{dy[i]} : 0.0f;
  });
}

template <typename T>
void GeluForward(Stream& stream, int64_t count, const T* x, T* y) {
  ForEach(stream, "GeluForward", count, [=] __device__(int64_t i) {
    const float v = x[i];
    y[i] = v * GeluGatesOf(v).gate;
  });
}

template <typename T>
void GeluBackward(Stream& stream, int64_t count, const T* x, const T* dy,
                  T* dx) {
  ForEach(stream, "GeluBackward", count, [=] __device__(int64_t i) {
    const float v = x[i];
    const GeluGates gates = GeluGatesOf(v);
    const float slope = kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * v * v);
    dx[i] = float{dy[i]} *
            (gates.gate + v * (2.0f * slope) * (gates.gate * gates.rest));
  });
}

// A thread for each four elements, which share a block of numbers.
template <typename T>
void Dropout(Stream& stream, int64_t count, const RandomStream& numbers,
             const RandomBase* base, float rate, const T* x, T* y) {
  const float scale = 1.0f / (1.0f - rate);
  const bool aligned = IsAligned(x) && IsAligned(y);
  ForEach(stream, "Dropout", (count + 3) / 4, [=] __device__(int64_t block) {
    const PhiloxBlock four = base->Of(numbers).Block(block);
    const int64_t first = 4 * block;
    if (aligned && first + 4 <= count) {
      Four<T> v = *reinterpret_cast<const Four<T>*>(x + first);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        v.values[n] = Drop(four[n], rate, scale, v.values[n]);
      }
      *reinterpret_cast<Four<T>*>(y + first) = v;
      return;
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int64_t i = first + n;
      if (i < count) y[i] = Drop(four[n], rate, scale, x[i]);
    }
  });
}

void SetRandomBase(Stream& stream, const RandomBase& value, RandomBase* base) {
  ForEach(stream, "SetRandomBase", 1,
          [=] __device__(int64_t) { *base = value; });
}

template void Convert(Stream&, int64_t, const float*, float*);
template void Convert(Stream&, int64_t, const float*, Bfloat16*);
template void Convert(Stream&, int64_t, const Bfloat16*, float*);

#define TRIBUTARY_INSTANTIATE(T)                                        \
  template void Add(Stream&, int64_t, const T*, T*);                    \
  template void ReluForward(Stream&, int64_t, const T*, T*);            \
  template void ReluBackward(Stream&, int64_t, const T*, const T*, T*); \
  template void GeluForward(Stream&, int64_t, const T*, T*);            \
  template void GeluBackward(Stream&, int64_t, const T*, const T*, T*); \
  template void Dropout(Stream&, int64_t, const RandomStream&,          \
                        const RandomBase*, float, const T*, T*);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
