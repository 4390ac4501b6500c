#include <cstring>

#include "common/cuda/flushed.h"
#include "common/cuda/launch.h"
#include "common/cuda/node_sums.h"

namespace tributary::cuda {
namespace {

constexpr uint32_t kSign = 0x80000000;
constexpr uint32_t kInfinity = 0x7f800000;
constexpr uint32_t kQuietNan = 0x7fc00000;

__device__ inline uint32_t BitsOf(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

__device__ inline float FloatOf(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// These formats round like those of common/numerics/half_kernels.h.
struct Float32 {
  __device__ static uint32_t Rounded(uint32_t bits) { return bits; }
};

struct Bfloat16 {
  __device__ static uint32_t Rounded(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    uint32_t result = bits + 0x7fff + (bits >> 16 & 1);
    // NaN from a GPU's arithmetic has all bits set, so an addition to it would
    // carry.
    result = magnitude > kInfinity ? kQuietNan | (bits & kSign) : result;
    result = magnitude < 0x00800000 ? bits & kSign : result;
    return result & 0xffff0000;
  }
};

struct Float16 {
  __device__ static uint32_t Rounded(uint32_t bits) {
    const uint32_t magnitude = bits & ~kSign;
    uint32_t result = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~0x1fffu;
    result = result >= 0x47800000 ? kInfinity : result;
    result = magnitude > kInfinity ? kQuietNan : result;
    // Below 2^-14 the last place is that of numbers from 0.5 to 1.
    const uint32_t small =
        BitsOf(__fsub_rn(__fadd_rn(FloatOf(magnitude), 0.5f), 0.5f));
    result = magnitude < 0x38800000 ? small : result;
    return result | (bits & kSign);
  }
};

template <typename Format>
void Round(Stream& stream, int64_t count, const float* from, float* to) {
  ForEach(stream, "RoundNode", count, [=] __device__(int64_t i) {
    to[i] = FloatOf(Format::Rounded(BitsOf(from[i])));
  });
}

template <typename Format>
struct AddElement {
  __device__ void operator()(int64_t i) const {
    const Flushed total =
        Flushed(sum[i]) + Flushed(FloatOf(Format::Rounded(BitsOf(x[i]))));
    sum[i] = FloatOf(Format::Rounded(BitsOf(total.value())));
  }

  const float* x;
  float* sum;
};

template <typename Format>
void Add(Stream& stream, int64_t count, const float* x, float* sum) {
  ForEach(stream, "AddNode", count, AddElement<Format>{x, sum});
}

}  // namespace

cudaError_t LoadAddNode() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes,
                               &ForEachKernel<AddElement<Float32>>);
}

void RoundNode(Stream& stream, NodeFormat format, int64_t count,
               const float* from, float* to) {
  switch (format) {
    case NodeFormat::kFloat32:
      if (from != to) Round<Float32>(stream, count, from, to);
      return;
    case NodeFormat::kBfloat16:
      return Round<Bfloat16>(stream, count, from, to);
    case NodeFormat::kFloat16:
      return Round<Float16>(stream, count, from, to);
  }
}

void AddNode(Stream& stream, NodeFormat format, int64_t count, const float* x,
             float* sum) {
  switch (format) {
    case NodeFormat::kFloat32:
      return Add<Float32>(stream, count, x, sum);
    case NodeFormat::kBfloat16:
      return Add<Bfloat16>(stream, count, x, sum);
    case NodeFormat::kFloat16:
      return Add<Float16>(stream, count, x, sum);
  }
}

}  // namespace tributary::cuda
