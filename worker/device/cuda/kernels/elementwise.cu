#include <algorithm>
#include <cstdint>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/elementwise.h"

namespace tributary::cuda {
namespace {

constexpr float kSqrt2OverPi = 0.7978845608f;
constexpr float kGeluCubic = 0.044715f;

// 0.5 (1 + tanh(u)) equals the logistic function of 2 u; `rest` is 1 - gate.
// Both are computed from exp(-2 |u|), which cannot overflow, and keep their
// relative precision near 0.
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

// Consecutive elements read and written at once, enough for few threads to
// saturate the memory bandwidth.
template <typename T, int kCount>
struct alignas(kCount * sizeof(T) < 16 ? kCount * sizeof(T) : 16) Neighbours {
  T values[kCount];
};

template <typename Group, typename T>
bool IsAligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % alignof(Group) == 0;
}

constexpr int kMapped = 8;
template <typename T>
using Mapped = Neighbours<T, kMapped>;

template <typename From, typename To, typename Function>
__global__ void MapKernel(int64_t count, bool aligned, const From* x,
                          const From* z, To* y, Function function) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kMapped;
  for (int64_t first =
           (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) *
           kMapped;
       first < count; first += step) {
    if (aligned && first + kMapped <= count) {
      const auto a = *reinterpret_cast<const Mapped<From>*>(x + first);
      Mapped<From> b = a;
      if (z != nullptr) b = *reinterpret_cast<const Mapped<From>*>(z + first);
      Mapped<To> result;
#pragma unroll
      for (int n = 0; n < kMapped; ++n) {
        result.values[n] = function(float{a.values[n]}, float{b.values[n]});
      }
      *reinterpret_cast<Mapped<To>*>(y + first) = result;
    } else {
      const int64_t end = first + kMapped < count ? first + kMapped : count;
      for (int64_t i = first; i < end; ++i) {
        y[i] = function(float{x[i]}, float{z == nullptr ? x[i] : z[i]});
      }
    }
  }
}

// y = function(x, z), element-wise. A null z is not read. y may be x or z.
template <typename From, typename To, typename Function>
void Map(Stream& stream, const char* operation, int64_t count, const From* x,
         const From* z, To* y, const Function& function) {
  const bool aligned = IsAligned<Mapped<From>>(x) &&
                       IsAligned<Mapped<From>>(z) && IsAligned<Mapped<To>>(y);
  const int64_t blocks = std::min(
      CeilDivide(count, kMapped * int64_t{kBlockThreads}), kMaximumBlocks);
  Launch(stream, operation, blocks, kBlockThreads,
         &MapKernel<From, To, Function>, count, aligned, x, z, y, function);
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
  Map(stream, "Convert", count, from, static_cast<const From*>(nullptr), to,
      [] __device__(float x, float) { return x; });
}

template <typename T>
void Add(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "Add", count, x, static_cast<const T*>(y), y,
      [] __device__(float a, float b) { return b + a; });
}

template <typename T>
void ReluForward(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "ReluForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) { return v < 0.0f ? 0.0f : v; });
}

template <typename T>
void ReluBackward(Stream& stream, int64_t count, const T* y, const T* dy,
                  T* dx) {
  Map(stream, "ReluBackward", count, y, dy, dx,
      [] __device__(float v, float dv) { return v > 0.0f ? dv : 0.0f; });
}

template <typename T>
void GeluForward(Stream& stream, int64_t count, const T* x, T* y) {
  Map(stream, "GeluForward", count, x, static_cast<const T*>(nullptr), y,
      [] __device__(float v, float) { return v * GeluGatesOf(v).gate; });
}

template <typename T>
void GeluBackward(Stream& stream, int64_t count, const T* x, const T* dy,
                  T* dx) {
  Map(stream, "GeluBackward", count, x, dy, dx,
      [] __device__(float v, float dv) {
        const GeluGates gates = GeluGatesOf(v);
        const float slope = kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * v * v);
        return dv *
               (gates.gate + v * (2.0f * slope) * (gates.gate * gates.rest));
      });
}

// Each thread handles four elements, which share a block of random numbers.
template <typename T>
void Dropout(Stream& stream, int64_t count, const RandomStream& numbers,
             const RandomBase* base, float rate, const T* x, T* y) {
  const float scale = 1.0f / (1.0f - rate);
  using Four = Neighbours<T, 4>;
  const bool aligned = IsAligned<Four>(x) && IsAligned<Four>(y);
  ForEach(stream, "Dropout", (count + 3) / 4, [=] __device__(int64_t block) {
    const PhiloxBlock four = base->Of(numbers).Block(block);
    const int64_t first = 4 * block;
    if (aligned && first + 4 <= count) {
      Four v = *reinterpret_cast<const Four*>(x + first);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        v.values[n] = Drop(four[n], rate, scale, v.values[n]);
      }
      *reinterpret_cast<Four*>(y + first) = v;
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
