#include "worker/device/cpu/kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/numerics/simd.h"

namespace tributary::cpu {
namespace {

// Computes Philox blocks [first, first + blocks) of a stream, word by word:
// many blocks in parallel, in loops that the compiler vectorizes.
constexpr int kMaximumBlocks = 64;

TRIBUTARY_INLINE void PhiloxBlocks(const RandomStream& stream, uint64_t first,
                                   int blocks, uint32_t* numbers) {
  uint32_t c0[kMaximumBlocks], c1[kMaximumBlocks], c2[kMaximumBlocks],
      c3[kMaximumBlocks];
  for (int i = 0; i < blocks; ++i) {
    const uint64_t block = first + i;
    c0[i] = static_cast<uint32_t>(block);
    c1[i] = static_cast<uint32_t>(block >> 32);
    c2[i] = stream.a;
    c3[i] = stream.b;
  }
  uint32_t key0 = static_cast<uint32_t>(stream.seed) ^
                  (static_cast<uint32_t>(stream.purpose) * 0x85EBCA6Bu);
  uint32_t key1 = static_cast<uint32_t>(stream.seed >> 32) ^
                  static_cast<uint32_t>(stream.purpose);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < blocks; ++i) {
      const uint64_t product0 = uint64_t{0xD2511F53} * c0[i];
      const uint64_t product1 = uint64_t{0xCD9E8D57} * c2[i];
      c0[i] = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
      c1[i] = static_cast<uint32_t>(product1);
      c2[i] = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
      c3[i] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  for (int i = 0; i < blocks; ++i) {
    numbers[4 * i] = c0[i];
    numbers[4 * i + 1] = c1[i];
    numbers[4 * i + 2] = c2[i];
    numbers[4 * i + 3] = c3[i];
  }
}

// Calls use(position within `count`, number of values, values) for the numbers
// of the stream from `first` on.
template <typename Use>
TRIBUTARY_INLINE void ForEachNumber(int64_t count, const RandomStream& stream,
                                    uint64_t first, const Use& use) {
  uint32_t numbers[4 * kMaximumBlocks];
  for (int64_t i = 0; i < count;) {
    // Only the first run may start within a block.
    const int64_t skipped = (first + i) % 4;
    const int64_t run =
        std::min<int64_t>(4 * kMaximumBlocks - skipped, count - i);
    const int blocks = static_cast<int>((skipped + run + 3) / 4);
    // Round up to whole vectors.
    PhiloxBlocks(stream, (first + i) / 4, (blocks + 15) / 16 * 16, numbers);
    use(i, run, numbers + skipped);
    i += run;
  }
}

TRIBUTARY_INLINE bool IsKept(uint32_t number, float rate) {
  // Convert through a signed integer: processors without AVX-512 convert no
  // unsigned ones.
  return static_cast<float>(static_cast<int32_t>(number >> 8)) * 0x1p-24f >=
         rate;
}

}  // namespace

TRIBUTARY_MULTIVERSION
void Add(int64_t count, const float* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] += x[i];
}

TRIBUTARY_MULTIVERSION
void Scale(int64_t count, float factor, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] *= factor;
}

TRIBUTARY_MULTIVERSION
void Dropout(int64_t count, const RandomStream& stream, uint64_t first,
             float rate, const float* x, float* y) {
  const float scale = 1.0f / (1.0f - rate);
  ForEachNumber(
      count, stream, first,
      [&](int64_t from, int64_t run, const uint32_t* numbers)
          __attribute__((always_inline)) {
            for (int64_t i = 0; i < run; ++i) {
              const float scaled = x[from + i] * scale;
              y[from + i] = IsKept(numbers[i], rate) ? scaled : 0.0f;
            }
          });
}

TRIBUTARY_MULTIVERSION
void DropoutFactors(int64_t count, const RandomStream& stream, uint64_t first,
                    float rate, float* factors) {
  const float scale = 1.0f / (1.0f - rate);
  ForEachNumber(
      count, stream, first,
      [&](int64_t from, int64_t run, const uint32_t* numbers)
          __attribute__((always_inline)) {
            for (int64_t i = 0; i < run; ++i) {
              factors[from + i] = IsKept(numbers[i], rate) ? scale : 0.0f;
            }
          });
}

void FillRows(int64_t rows, int64_t width, const float* bias, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(y + r * width, bias, width * sizeof(float));
  }
}

TRIBUTARY_MULTIVERSION
void ColumnSums(int64_t rows, int64_t width, const float* x, float* sums) {
  for (int64_t c = 0; c < width; ++c) sums[c] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = x + r * width;
    for (int64_t c = 0; c < width; ++c) sums[c] += row[c];
  }
}

}  // namespace tributary::cpu
