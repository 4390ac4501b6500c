#include "common/codec/eight_bit.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/numerics/flush_denormals.h"
#include "common/numerics/simd.h"
#include "common/numerics/vector_ops.h"
#include "common/text/counted.h"

// Not inlined, so that the compiler does not move arithmetic out of the scope
// of FlushDenormals.
#define TRIBUTARY_KERNEL TRIBUTARY_MULTIVERSION __attribute__((noinline))

namespace tributary {
namespace {

constexpr float kLargest = 127;
// Blocks whose largest magnitude is smaller are sent as zeros, because their
// scale or its inverse might not be a normal number.
constexpr float kSmallest = 0x1p-100f;
// Adding and subtracting it rounds smaller numbers to integers, to nearest,
// ties to even.
constexpr float kRounder = 0x1.8p23f;

int64_t BlockCount(int64_t count) {
  return (count + kEightBitBlock - 1) / kEightBitBlock;
}

// Returns infinity if `values` contains infinity or NaN.
TRIBUTARY_KERNEL float LargestMagnitude(const float* values, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    int32_t bits;
    std::memcpy(&bits, &values[i], sizeof(bits));
    largest = std::max(largest, bits & 0x7fffffff);
  }
  float magnitude;
  largest = std::min(largest, 0x7f800000);
  std::memcpy(&magnitude, &largest, sizeof(magnitude));
  return magnitude;
}

TRIBUTARY_KERNEL void EncodeBlock(float* __restrict values, int64_t count,
                                  float scale, float inverse,
                                  int8_t* __restrict to) {
  for (int64_t i = 0; i < count; ++i) {
    const float rounded = (values[i] * inverse + kRounder) - kRounder;
    to[i] = static_cast<int8_t>(static_cast<int32_t>(rounded));
    values[i] -= rounded * scale;
  }
}

TRIBUTARY_KERNEL void DecodeBlock(const int8_t* __restrict from, int64_t count,
                                  float scale, float* __restrict out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(from[i]) * scale;
  }
}

TRIBUTARY_KERNEL void AddBlock(const int8_t* __restrict from, int64_t count,
                               float scale, float* __restrict values) {
  for (int64_t i = 0; i < count; ++i) {
    values[i] += static_cast<float>(from[i]) * scale;
  }
}

// `form` computes the elements of each block, just before they are encoded, and
// returns a pointer to them.
template <typename Form>
std::string EncodeBlocks(int64_t count, const Form form) {
  const FlushDenormals flush;
  const int64_t blocks = BlockCount(count);
  std::string payload(EightBitBytes(count), '\0');
  int8_t* const integers = reinterpret_cast<int8_t*>(&payload[4 * blocks]);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t begin = block * kEightBitBlock;
    const int64_t size = std::min(kEightBitBlock, count - begin);
    float* const values = form(begin, size);
    const float largest = LargestMagnitude(values, size);
    float scale = 0;
    if (std::isinf(largest)) {
      scale = std::numeric_limits<float>::quiet_NaN();
    } else if (largest >= kSmallest) {
      scale = largest / kLargest;
      EncodeBlock(values, size, scale, kLargest / largest, integers + begin);
    }
    std::memcpy(&payload[4 * block], &scale, sizeof(scale));
  }
  return payload;
}

float ScaleAt(absl::string_view payload, int64_t block) {
  float scale;
  std::memcpy(&scale, payload.data() + 4 * block, sizeof(scale));
  return scale;
}

const int8_t* Integers(absl::string_view payload, int64_t elements) {
  return reinterpret_cast<const int8_t*>(payload.data()) +
         4 * BlockCount(elements);
}

}  // namespace

std::string EncodeEightBit(const float* gradient, float* residual,
                           int64_t count) {
  return EncodeBlocks(count, [=](int64_t begin, int64_t size) {
    AddInto(gradient + begin, residual + begin, size);
    return residual + begin;
  });
}

std::string EncodeEightBitDifference(const float* from, const float* to,
                                     int64_t count) {
  float block[kEightBitBlock];
  return EncodeBlocks(count, [&](int64_t begin, int64_t size) {
    Subtract(to + begin, from + begin, block, size);
    return block;
  });
}

absl::Status CheckEightBit(absl::string_view payload, int64_t count) {
  const int64_t blocks = BlockCount(count);
  if (static_cast<int64_t>(payload.size()) != EightBitBytes(count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("8-bit payload of ", Counted(payload.size(), "byte"),
                     ", expected ", EightBitBytes(count)));
  }
  for (int64_t block = 0; block < blocks; ++block) {
    const float scale = ScaleAt(payload, block);
    if (scale < 0 || std::isinf(scale)) {
      return absl::InvalidArgumentError(
          absl::StrCat("8-bit payload: scale ", scale, " of block ", block,
                       " is not finite and at least 0"));
    }
  }
  return absl::OkStatus();
}

void DecodeEightBit(absl::string_view payload, int64_t elements, int64_t begin,
                    int64_t count, float* out) {
  const FlushDenormals flush;
  const int8_t* const integers = Integers(payload, elements);
  for (const int64_t end = begin + count; begin < end;) {
    const int64_t block = begin / kEightBitBlock;
    const int64_t size = std::min((block + 1) * kEightBitBlock, end) - begin;
    DecodeBlock(integers + begin, size, ScaleAt(payload, block), out);
    begin += size;
    out += size;
  }
}

void AddEightBit(absl::string_view payload, float* values, int64_t count) {
  const FlushDenormals flush;
  const int8_t* const integers = Integers(payload, count);
  for (int64_t begin = 0; begin < count; begin += kEightBitBlock) {
    AddBlock(integers + begin, std::min(kEightBitBlock, count - begin),
             ScaleAt(payload, begin / kEightBitBlock), values + begin);
  }
}

}  // namespace tributary
