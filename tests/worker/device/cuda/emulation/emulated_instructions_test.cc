// The emulated instructions of tensor cores against the tables of the PTX ISA
// ("Matrix Fragments for mma.m16n8k16", "ldmatrix", "cp.async") and plain
// products.
#include <array>
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_gpu.h"
#include "worker/device/cuda/kernels/bfloat16.h"
#include "worker/device/cuda/kernels/instructions.h"

namespace tributary::cuda {
namespace {

template <int kRows, int kColumns>
struct alignas(16) Matrix {
  Bfloat16 elements[kRows][kColumns];
};

// Small integers, whose products and sums are exact.
template <int kRows, int kColumns>
Matrix<kRows, kColumns> Numbers(int seed) {
  Matrix<kRows, kColumns> matrix;
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      matrix.elements[r][c] =
          static_cast<float>((r * 31 + c * 17 + seed * 7) % 23 - 11);
    }
  }
  return matrix;
}

uint32_t Word(Bfloat16 low, Bfloat16 high) {
  return low.bits | static_cast<uint32_t>(high.bits) << 16;
}

using Product = std::array<std::array<float, 8>, 16>;

// 1 + a b.
Product PlainProduct(const Matrix<16, 16>& a, const Matrix<16, 8>& b) {
  Product d;
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 8; ++c) {
      d[r][c] = 1;
      for (int k = 0; k < 16; ++k) {
        d[r][c] += float{a.elements[r][k]} * float{b.elements[k][c]};
      }
    }
  }
  return d;
}

// Runs one warp, which computes 1 + a b from the fragments that `load` returns.
struct Fragments {
  uint32_t a[4], b[2];
};
template <typename Load>
Product WarpProduct(const Load& load) {
  Product product = {};
  emulated_gpu::Run(1, 32, [&] {
    const Fragments own = load();
    float d[4] = {1, 1, 1, 1};
    MultiplyAdd(d, own.a, own.b[0], own.b[1]);
    const int lane = emulated_gpu::Lane();
    for (int i = 0; i < 4; ++i) {
      product[lane / 4 + (i < 2 ? 0 : 8)][lane % 4 * 2 + (i & 1)] = d[i];
    }
  });
  return product;
}

TEST(EmulatedInstructionsTest, MultiplyAddTakesFragmentsInTheIsasLayout) {
  const auto a = Numbers<16, 16>(1);
  const auto b = Numbers<16, 8>(2);
  const Product product = WarpProduct([&] {
    const int group = emulated_gpu::Lane() >> 2;
    const int thread = emulated_gpu::Lane() % 4;
    Bfloat16 a_elements[8], b_elements[4];
    for (int i = 0; i < 8; ++i) {
      const int row = i < 2 || (4 <= i && i < 6) ? group : group + 8;
      const int column = thread * 2 + (i & 1) + (i < 4 ? 0 : 8);
      a_elements[i] = a.elements[row][column];
    }
    for (int i = 0; i < 4; ++i) {
      b_elements[i] = b.elements[thread * 2 + (i & 1) + (i < 2 ? 0 : 8)][group];
    }
    Fragments own;
    std::memcpy(own.a, a_elements, sizeof(own.a));
    std::memcpy(own.b, b_elements, sizeof(own.b));
    return own;
  });
  EXPECT_EQ(product, PlainProduct(a, b));
}

TEST(EmulatedInstructionsTest, MatricesLoadIntoTheLayoutOfFragments) {
  const auto a = Numbers<16, 16>(3);
  const auto b = Numbers<16, 8>(4);
  Matrix<8, 16> transposed;
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 8; ++c) {
      transposed.elements[c][r] = b.elements[r][c];
    }
  }
  // Quarters of a: upper left, lower left, upper right, lower right.
  const auto load_a = [&](Fragments& own) {
    const int lane = emulated_gpu::Lane();
    LoadMatrices(SharedAddressOf(&a.elements[lane % 16][lane / 16 * 8]), own.a);
  };
  EXPECT_EQ(WarpProduct([&] {
              Fragments own;
              load_a(own);
              const int lane = emulated_gpu::Lane() % 16;  // Each half twice.
              uint32_t words[4];
              LoadTransposedMatrices(SharedAddressOf(&b.elements[lane][0]),
                                     words);
              own.b[0] = words[0];
              own.b[1] = words[1];
              EXPECT_EQ(words[2], words[0]);
              EXPECT_EQ(words[3], words[1]);
              return own;
            }),
            PlainProduct(a, b));
  EXPECT_EQ(WarpProduct([&] {
              Fragments own;
              load_a(own);
              const int lane = emulated_gpu::Lane() % 16;
              uint32_t words[4];
              LoadMatrices(
                  SharedAddressOf(&transposed.elements[lane % 8][lane / 8 * 8]),
                  words);
              own.b[0] = words[0];
              own.b[1] = words[1];
              return own;
            }),
            PlainProduct(a, b));
}

TEST(EmulatedInstructionsTest, WordsHoldTheLowerIndexInTheLowerHalf) {
  const float low = 1 + 0x1p-8f, high = 1 + 0x1p-7f + 0x1p-8f;
  const uint32_t word = PackBfloat16(low, high);
  EXPECT_EQ(word, Word(Bfloat16(1.0f), Bfloat16(1 + 0x1p-6f)));  // Ties: even.
  EXPECT_EQ(LowOf(word), 1);
  EXPECT_EQ(HighOf(word), 1 + 0x1p-6f);
  EXPECT_EQ(Exp2(-INFINITY), 0);
  EXPECT_EQ(Exp2(-127), 0);
  EXPECT_EQ(Exp2(3), 8);
}

struct alignas(16) Block {
  uint32_t words[4];
};

TEST(EmulatedInstructionsTest, CopiesTakeEffectWhenTheThreadWaits) {
  Block from = {{1, 2, 3, 4}}, to = {{5, 6, 7, 8}}, zero = to;
  emulated_gpu::Run(1, 1, [&] {
    CopyAsync<16>(SharedAddressOf(&to), &from, /*inside=*/true);
    CopyAsync<4>(SharedAddressOf(&zero.words[1]), &from, /*inside=*/false);
    // The old content is lost when the copy begins.
    EXPECT_EQ(to.words[0], 0xffffffffu);
    EXPECT_EQ(zero.words[1], 0xffffffffu);
    from.words[2] = 9;
    WaitForCopies();
  });
  EXPECT_EQ(to.words[0], 1u);
  EXPECT_EQ(to.words[2], 9u);
  EXPECT_EQ(zero.words[0], 5u);
  EXPECT_EQ(zero.words[1], 0u);
  EXPECT_EQ(zero.words[2], 7u);
}

TEST(EmulatedInstructionsDeathTest, ThreadsMustWaitForTheirCopies) {
  Block from = {}, to = {};
  EXPECT_DEATH(
      emulated_gpu::Run(
          1, 1, [&] { CopyAsync<16>(SharedAddressOf(&to), &from, true); }),
      "leaves before its copies have ended");
}

TEST(EmulatedInstructionsDeathTest, AddressesMustBeAligned) {
  alignas(16) char memory[32];
  EXPECT_DEATH(
      emulated_gpu::Run(
          1, 1,
          [&] { CopyAsync<16>(SharedAddressOf(memory), memory + 8, true); }),
      "address is not aligned");
  EXPECT_DEATH(emulated_gpu::Run(1, 32,
                                 [&] {
                                   uint32_t words[4];
                                   LoadMatrices(SharedAddressOf(memory + 8),
                                                words);
                                 }),
               "address is not aligned");
}

}  // namespace
}  // namespace tributary::cuda
