#include "common/numerics/half.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/numerics/flush_denormals.h"
#include "common/numerics/half_kernels.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr WireDtype kBfloat16 = ExchangeSpec::BFLOAT16;
constexpr WireDtype kFloat16 = ExchangeSpec::FLOAT16;

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

struct Format {
  WireDtype dtype;
  int fraction_bits;
  int least_exponent;  // Of a normal number.
  bool denormals;
  double largest;
};

constexpr Format kFormats[] = {
    {kBfloat16, 7, -126, false, 0x1.fep127},
    {kFloat16, 10, -14, true, 65504},
};

// The definition, in double precision.
double ReferenceRound(const Format& format, float value) {
  if (!std::isfinite(value)) return value;
  if (std::abs(value) < std::numeric_limits<float>::min()) {
    return std::copysign(0.0, value);
  }
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const double place = std::ldexp(1.0, exponent - format.fraction_bits);
  const double rounded = std::nearbyint(value / place) * place;
  if (std::abs(rounded) > format.largest) {
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  }
  return std::copysign(rounded, value);
}

// Numbers of every exponent and sign, halves between two 16-bit numbers and
// their neighbours, infinite ones, NaN and denormal ones.
std::vector<float> ManyNumbers() {
  std::vector<float> values;
  std::mt19937 generator(1);
  for (uint32_t high = 0; high < 0x10000; ++high) {
    const uint32_t bits = high << 16;
    for (const uint32_t low :
         {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu,
          static_cast<uint32_t>(generator() & 0xffff)}) {
      values.push_back(FloatOf(bits | low));
    }
  }
  return values;
}

TEST(HalfTest, RoundsToTheNearestAndOfTwoToTheEvenOne) {
  std::vector<float> values = ManyNumbers();
  for (const Format& format : kFormats) {
    std::vector<float> rounded = values;
    RoundTo(format.dtype, rounded.data(), rounded.size());
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(rounded[i]));
        ASSERT_EQ(std::signbit(rounded[i]), std::signbit(values[i]));
        continue;
      }
      const double expected = ReferenceRound(format, values[i]);
      ASSERT_EQ(rounded[i], expected) << values[i];
      ASSERT_EQ(std::signbit(rounded[i]), std::signbit(values[i]));
    }
  }
}

TEST(HalfTest, KnownNumbersHaveTheirKnownBits) {
  const struct {
    WireDtype dtype;
    float value;
    uint16_t bits;
  } cases[] = {
      {kBfloat16, 1, 0x3f80},
      {kBfloat16, -2, 0xc000},
      {kBfloat16, 3.14159265f, 0x4049},
      {kBfloat16, 1 + 0x1p-8f, 0x3f80},
      {kBfloat16, 1 + 3 * 0x1p-8f, 0x3f82},
      {kBfloat16, std::numeric_limits<float>::max(), 0x7f80},
      {kBfloat16, std::numeric_limits<float>::infinity(), 0x7f80},
      {kBfloat16, std::numeric_limits<float>::quiet_NaN(), 0x7fc0},
      {kBfloat16, 0x1p-127f, 0},
      {kBfloat16, -0.0f, 0x8000},
      {kFloat16, 1, 0x3c00},
      {kFloat16, -2, 0xc000},
      {kFloat16, 3.14159265f, 0x4248},
      {kFloat16, 65504, 0x7bff},
      {kFloat16, 65519.996f, 0x7bff},
      {kFloat16, 65520, 0x7c00},
      {kFloat16, -1e30f, 0xfc00},
      {kFloat16, std::numeric_limits<float>::infinity(), 0x7c00},
      {kFloat16, std::numeric_limits<float>::quiet_NaN(), 0x7e00},
      {kFloat16, 0x1p-14f, 0x0400},
      {kFloat16, 0x1p-24f, 0x0001},
      {kFloat16, 0x1p-25f, 0x0000},
      {kFloat16, 0x1.8p-24f, 0x0002},
      {kFloat16, 0x1.ffp-15f, 0x03fe},
      {kFloat16, -0.0f, 0x8000},
  };
  for (const auto& c : cases) {
    uint16_t bits;
    EncodeHalf(c.dtype, &c.value, &bits, 1);
    EXPECT_EQ(bits, c.bits) << c.value;
  }
}

TEST(HalfTest, ARoundedNumberSurvivesEncodingAndRounding) {
  const std::vector<float> values = ManyNumbers();
  for (const Format& format : kFormats) {
    std::vector<float> rounded(values.size()), again(values.size());
    RoundedCopy(format.dtype, values.data(), rounded.data(), values.size());
    again = rounded;
    RoundTo(format.dtype, again.data(), again.size());
    // At an odd address, as in the middle of a message.
    std::string bytes(2 * values.size() + 1, 0);
    EncodeHalf(format.dtype, values.data(), &bytes[1], values.size());
    std::vector<float> decoded(values.size());
    DecodeHalf(format.dtype, &bytes[1], decoded.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(BitsOf(again[i]), BitsOf(rounded[i])) << values[i];
      ASSERT_EQ(BitsOf(decoded[i]), BitsOf(rounded[i])) << values[i];
    }
  }
}

TEST(HalfTest, DecodesEverySixteenBits) {
  for (const Format& format : kFormats) {
    for (uint32_t i = 0; i < 0x10000; ++i) {
      const uint16_t half = static_cast<uint16_t>(i);
      float value;
      DecodeHalf(format.dtype, &half, &value, 1);
      uint16_t encoded;
      EncodeHalf(format.dtype, &value, &encoded, 1);
      const int bits = format.fraction_bits;
      const int exponent = i >> bits & ((1 << (15 - bits)) - 1);
      const int fraction = i & ((1 << bits) - 1);
      const bool special = exponent == (1 << (15 - bits)) - 1;
      if (special && fraction != 0) {
        ASSERT_TRUE(std::isnan(value));
      } else if (exponent == 0 && !format.denormals) {
        ASSERT_EQ(value, 0);
      } else {
        ASSERT_EQ(encoded, half) << value;
        ASSERT_EQ(std::isinf(value), special);
      }
    }
  }
}

TEST(HalfTest, AddsWhatIsRoundedAndRoundsTheSum) {
  std::mt19937 generator(2);
  std::normal_distribution<float> distribution;
  for (const Format& format : kFormats) {
    for (const int size : {0, 1, 7, 16, 33, 1000}) {
      std::vector<float> x(size), sum(size);
      for (float& value : x) value = distribution(generator);
      for (float& value : sum) value = distribution(generator);
      const std::vector<float> before = sum;
      RoundAndAdd(format.dtype, x.data(), sum.data(), size);
      for (int i = 0; i < size; ++i) {
        const float a = ReferenceRound(format, before[i]);
        const float b = ReferenceRound(format, x[i]);
        ASSERT_EQ(sum[i], ReferenceRound(format, a + b));
      }
    }
  }
}

// All sums of rounded numbers, small, large, infinite and NaN.
TEST(HalfTest, TheSumsOfRoundedNumbersAreThoseOfNumbersThatAreRoundedFirst) {
  for (const Format& format : kFormats) {
    std::vector<float> numbers = ManyNumbers();
    RoundTo(format.dtype, numbers.data(), numbers.size());
    const int64_t n = static_cast<int64_t>(numbers.size());
    std::mt19937 generator(3);
    for (int trial = 0; trial < 10; ++trial) {
      std::vector<float> x = numbers;
      std::shuffle(x.begin(), x.end(), generator);
      std::vector<float> expected = numbers, sum = numbers, out(n);
      RoundAndAdd(format.dtype, x.data(), expected.data(), n);
      AddRounded(format.dtype, x.data(), sum.data(), n);
      SumRounded(format.dtype, numbers.data(), x.data(), out.data(), n);
      for (int64_t i = 0; i < n; ++i) {
        if (std::isnan(expected[i])) {
          ASSERT_TRUE(std::isnan(sum[i]) && std::isnan(out[i]));
          continue;
        }
        ASSERT_EQ(BitsOf(sum[i]), BitsOf(expected[i]));
        ASSERT_EQ(BitsOf(out[i]), BitsOf(expected[i]));
      }
    }
  }
}

TEST(HalfTest, Float32IsLeftAsItIs) {
  const std::vector<float> values = {1.2345678f, -1e-3f, 7};
  std::vector<float> copy(3);
  RoundedCopy(ExchangeSpec::FLOAT32, values.data(), copy.data(), 3);
  RoundTo(ExchangeSpec::FLOAT32, copy.data(), 3);
  EXPECT_EQ(copy, values);
  RoundAndAdd(ExchangeSpec::FLOAT32, values.data(), copy.data(), 3);
  AddRounded(ExchangeSpec::FLOAT32, values.data(), copy.data(), 3);
  EXPECT_EQ(copy[0], 1.2345678f + 1.2345678f + 1.2345678f);
  SumRounded(ExchangeSpec::FLOAT32, values.data(), values.data(), copy.data(),
             3);
  EXPECT_EQ(copy[0], 1.2345678f + 1.2345678f);
}

TEST(HalfTest, WritesNothingBehindTheEnd) {
  const std::vector<float> values(21, 1.5f);
  for (const Format& format : kFormats) {
    std::vector<uint16_t> halves(22, 7);
    EncodeHalf(format.dtype, values.data(), halves.data(), 21);
    EXPECT_EQ(halves[21], 7);
    std::vector<float> decoded(22, 7);
    DecodeHalf(format.dtype, halves.data(), decoded.data(), 21);
    EXPECT_EQ(decoded[20], 1.5f);
    EXPECT_EQ(decoded[21], 7);
  }
}

// As each instruction set computes them.
using half_kernels::Bfloat16;
using half_kernels::Float16;
template <typename F>
__attribute__((target("avx2,fma"), noinline)) void Avx2(const float* from,
                                                        float* to, int64_t n) {
  half_kernels::Round<F>(from, to, n);
}
template <typename F>
__attribute__((target("avx512f,avx512bw,avx512vl"), noinline)) void Avx512(
    const float* from, float* to, int64_t n) {
  half_kernels::Round<F>(from, to, n);
}

TEST(HalfTest, HasTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> values = ManyNumbers();
  const int64_t n = static_cast<int64_t>(values.size());
  for (const Format& format : kFormats) {
    std::vector<float> expected(n), other(n);
    RoundedCopy(format.dtype, values.data(), expected.data(), n);
    const auto check = [&] {
      EXPECT_EQ(std::memcmp(other.data(), expected.data(), n * sizeof(float)),
                0);
    };
    const bool bfloat16 = format.dtype == kBfloat16;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
      (bfloat16 ? Avx2<Bfloat16> : Avx2<Float16>)(values.data(), other.data(),
                                                  n);
      check();
    }
    if (__builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      (bfloat16 ? Avx512<Bfloat16> : Avx512<Float16>)(values.data(),
                                                      other.data(), n);
      check();
    }
    const FlushDenormals flush;
    RoundedCopy(format.dtype, values.data(), other.data(), n);
    check();
  }
}

}  // namespace
}  // namespace tributary
