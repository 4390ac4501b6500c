#include "worker/device/cuda/elementwise.h"
#include "worker/device/cuda/launch.h"

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

bool IsAligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(float4) == 0;
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

void Add(Stream& stream, int64_t count, const float* x, float* y) {
  ForEach(stream, "Add", count, [=] __device__(int64_t i) { y[i] += x[i]; });
}

void ReluForward(Stream& stream, int64_t count, const float* x, float* y) {
  ForEach(stream, "ReluForward", count,
          [=] __device__(int64_t i) { y[i] = x[i] < 0.0f ? 0.0f : x[i]; });
}

void ReluBackward(Stream& stream, int64_t count, const float* y,
                  const float* dy, float* dx) {
  ForEach(stream, "ReluBackward", count,
          [=] __device__(int64_t i) { dx[i] = y[i] > 0.0f ? dy[i] : 0.0f; });
}

void GeluForward(Stream& stream, int64_t count, const float* x, float* y) {
  ForEach(stream, "GeluForward", count, [=] __device__(int64_t i) {
    const float v = x[i];
    y[i] = v * GeluGatesOf(v).gate;
  });
}

void GeluBackward(Stream& stream, int64_t count, const float* x,
                  const float* dy, float* dx) {
  ForEach(stream, "GeluBackward", count, [=] __device__(int64_t i) {
    const float v = x[i];
    const GeluGates gates = GeluGatesOf(v);
    const float slope = kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * v * v);
    dx[i] =
        dy[i] * (gates.gate + v * (2.0f * slope) * (gates.gate * gates.rest));
  });
}

// A thread for each four elements, which share a block of numbers.
void Dropout(Stream& stream, int64_t count, const RandomStream& numbers,
             float rate, const float* x, float* y) {
  const float scale = 1.0f / (1.0f - rate);
  const bool aligned = IsAligned(x) && IsAligned(y);
  ForEach(stream, "Dropout", (count + 3) / 4, [=] __device__(int64_t block) {
    const PhiloxBlock four = numbers.Block(block);
    const int64_t first = 4 * block;
    if (aligned && first + 4 <= count) {
      float4 v = *reinterpret_cast<const float4*>(x + first);
      v.x = Drop(four[0], rate, scale, v.x);
      v.y = Drop(four[1], rate, scale, v.y);
      v.z = Drop(four[2], rate, scale, v.z);
      v.w = Drop(four[3], rate, scale, v.w);
      *reinterpret_cast<float4*>(y + first) = v;
      return;
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int64_t i = first + n;
      if (i < count) y[i] = Drop(four[n], rate, scale, x[i]);
    }
  });
}

}  // namespace tributary::cuda
