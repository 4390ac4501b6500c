#include "emulated_instructions.h"

#include <cmath>
#include <cstring>

#include "worker/device/cuda/kernels/bfloat16.h"

namespace tributary::cuda {
namespace {

void CheckAligned(uintptr_t address, size_t bytes) {
  if (address % bytes != 0) emulated_gpu::Fail("address is not aligned");
}

float ToFloat(uint16_t bits) {
  Bfloat16 number;
  number.bits = bits;
  return number;
}

// All 32 rows of four matrices of [8, 8].
struct Matrices {
  uint16_t elements[4][8][8];
};

// What all lanes' rows hold. Each row is read when its lane arrives.
Matrices GatherRows(SharedAddress row) {
  CheckAligned(row, 16);
  Matrices all;
  emulated_gpu::GatherBytes(reinterpret_cast<const void*>(row), 16, &all);
  return all;
}

uint32_t Word(uint16_t low, uint16_t high) {
  return low | static_cast<uint32_t>(high) << 16;
}

}  // namespace

void MultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                 uint32_t b1) {
  struct Operands {
    uint32_t a[4], b[2];
  };
  const Operands own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
  Operands all[32];
  emulated_gpu::GatherBytes(&own, sizeof(own), all);
  const int group = emulated_gpu::Lane() / 4, thread = emulated_gpu::Lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row_half = i / 2, column = 2 * thread + i % 2;
    for (int k = 0; k < 16; ++k) {
      const int holder = k % 8 / 2, k_half = k / 8;
      const uint32_t left =
          all[group * 4 + holder].a[k_half * 2 + row_half] >> k % 2 * 16;
      const uint32_t right = all[column * 4 + holder].b[k_half] >> k % 2 * 16;
      d[i] += ToFloat(static_cast<uint16_t>(left)) *
              ToFloat(static_cast<uint16_t>(right));
    }
  }
}

void LoadMatrices(SharedAddress row, uint32_t (&words)[4]) {
  const Matrices all = GatherRows(row);
  const int r = emulated_gpu::Lane() / 4, c = emulated_gpu::Lane() % 4 * 2;
  for (int m = 0; m < 4; ++m) {
    words[m] = Word(all.elements[m][r][c], all.elements[m][r][c + 1]);
  }
}

void LoadTransposedMatrices(SharedAddress row, uint32_t (&words)[4]) {
  const Matrices all = GatherRows(row);
  const int c = emulated_gpu::Lane() / 4, r = emulated_gpu::Lane() % 4 * 2;
  for (int m = 0; m < 4; ++m) {
    words[m] = Word(all.elements[m][r][c], all.elements[m][r + 1][c]);
  }
}

void BeginAlignedCopy(SharedAddress to, const void* from, size_t bytes) {
  CheckAligned(to, bytes);
  CheckAligned(reinterpret_cast<uintptr_t>(from), bytes);
  emulated_gpu::BeginCopy(reinterpret_cast<void*>(to), from, bytes);
}

uint32_t LoadWord(const void* from) {
  CheckAligned(reinterpret_cast<uintptr_t>(from), 4);
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

void StoreWord(void* to, uint32_t word) {
  CheckAligned(reinterpret_cast<uintptr_t>(to), 4);
  std::memcpy(to, &word, sizeof(word));
}

uint32_t PackBfloat16(float low, float high) {
  return Word(Bfloat16(low).bits, Bfloat16(high).bits);
}

float LowOf(uint32_t word) { return ToFloat(static_cast<uint16_t>(word)); }
float HighOf(uint32_t word) {
  return ToFloat(static_cast<uint16_t>(word >> 16));
}

float Exp2(float x) {
  const float power = std::exp2(x);
  return power < 0x1p-126f ? 0.0f : power;  // NaN stays NaN.
}

}  // namespace tributary::cuda
