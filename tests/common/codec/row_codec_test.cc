#include "common/codec/row_codec.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/codec/eight_bit_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string Encoded(const std::vector<float>& values, int dim) {
  const auto rows = static_cast<int64_t>(values.size()) / dim;
  std::string bytes(rows * EncodedRowBytes(EIGHT_BIT_ROWS, dim), '?');
  EncodeRows(EIGHT_BIT_ROWS, values.data(), rows, dim, &bytes[0]);
  return bytes;
}

std::vector<float> Decoded(const std::string& bytes, int dim) {
  const auto rows =
      static_cast<int64_t>(bytes.size()) / EncodedRowBytes(EIGHT_BIT_ROWS, dim);
  std::vector<float> values(rows * dim);
  EXPECT_EQ(DecodeRows(EIGHT_BIT_ROWS, bytes.data(), rows, dim, values.data()),
            absl::OkStatus());
  return values;
}

std::vector<float> Rounded(std::vector<float> values, int dim) {
  RoundRows(EIGHT_BIT_ROWS, values.data(),
            static_cast<int64_t>(values.size()) / dim, dim);
  return values;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Rows of many magnitudes.
std::vector<float> Rows(int64_t rows, int dim, int seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  for (int64_t row = 0; row < rows; ++row) {
    const int exponent = static_cast<int>(random() % 240) - 125;
    for (int i = 0; i < dim; ++i) {
      values.push_back(std::ldexp(normal(random), exponent));
    }
  }
  return values;
}

TEST(RowCodecTest, TheJobChoosesTheEncoding) {
  JobSpec job;
  job.mutable_exchange()->set_wire_dtype(ExchangeSpec::BFLOAT16);
  EXPECT_EQ(RowEncoding(job), BFLOAT16);
  const struct {
    SparseSpec::WireDtype dtype;
    Encoding encoding;
    int64_t bytes;
  } cases[] = {{SparseSpec::FLOAT32, FLOAT32, 80},
               {SparseSpec::BFLOAT16, BFLOAT16, 40},
               {SparseSpec::FLOAT16, FLOAT16, 40},
               {SparseSpec::INT8, EIGHT_BIT_ROWS, 21},
               {SparseSpec::WIRE_DTYPE_UNSPECIFIED, BFLOAT16, 40}};
  for (const auto& c : cases) {
    job.mutable_sparse()->set_wire_dtype(c.dtype);
    EXPECT_EQ(RowEncoding(job), c.encoding);
    EXPECT_EQ(EncodedRowBytes(c.encoding, 20), c.bytes);
  }
}

TEST(RowCodecTest, EveryEncodingDecodesWhatItHasRounded) {
  constexpr int kDim = 13, kRows = 50;
  std::vector<float> values = Rows(kRows, kDim, 3);
  // Within the range of every format.
  for (float& value : values) value = std::fmod(value, 1000.f);
  for (const Encoding encoding : {FLOAT32, BFLOAT16, FLOAT16, EIGHT_BIT_ROWS}) {
    std::string bytes(kRows * EncodedRowBytes(encoding, kDim) + 1, '?');
    // Unaligned.
    EncodeRows(encoding, values.data(), kRows, kDim, &bytes[1]);
    std::vector<float> decoded(values.size());
    ASSERT_EQ(DecodeRows(encoding, &bytes[1], kRows, kDim, decoded.data()),
              absl::OkStatus());
    std::vector<float> rounded = values;
    RoundRows(encoding, rounded.data(), kRows, kDim);
    EXPECT_TRUE(SameBits(decoded, rounded)) << Encoding_Name(encoding);
  }
}

// The reference computes in float64.
TEST(RowCodecTest, EightBitsRoundToTheNearestMultipleOfTheSmallestPowerOfTwo) {
  for (const int dim : {1, 2, 7, 16, 64, 300}) {
    const std::vector<float> values = Rows(200, dim, dim);
    const std::string bytes = Encoded(values, dim);
    const std::vector<float> decoded = Decoded(bytes, dim);
    EXPECT_TRUE(SameBits(decoded, Rounded(values, dim)));
    for (size_t row = 0; row < values.size() / dim; ++row) {
      double largest = 0;
      for (int i = 0; i < dim; ++i) {
        const double magnitude = std::abs(double{values[row * dim + i]});
        if (magnitude >= 0x1p-126) largest = std::max(largest, magnitude);
      }
      double factor = 0x1p-126;
      while (127 * factor < largest) factor *= 2;
      const auto scale = static_cast<uint8_t>(bytes[row * (dim + 1)]);
      EXPECT_EQ(std::ldexp(1.0, scale - 127), factor);
      for (int i = 0; i < dim; ++i) {
        const double value = values[row * dim + i];
        const double error = decoded[row * dim + i] - value;
        EXPECT_LE(std::abs(error), std::max(largest / 127, 0x1p-126));
        // nearbyint rounds ties to even.
        if (std::abs(value) >= 0x1p-126) {
          EXPECT_LE(std::abs(error), factor / 2);
          EXPECT_EQ(decoded[row * dim + i],
                    std::nearbyint(value / factor) * factor);
        }
      }
    }
  }
}

TEST(RowCodecTest, KnownRows) {
  // The largest magnitude is exactly 127 * 2^-7, and just above it.
  EXPECT_EQ(Encoded({0.9921875f, -0.5f, 0.00390625f, 0.01171875f}, 4),
            std::string("\x78\x7f\xc0\0\x02", 5));
  EXPECT_EQ(Encoded({std::nextafter(0.9921875f, 1.f), -0.5f}, 2),
            std::string("\x79\x40\xe0", 3));
  // Zeros, among them -0, and numbers that are too small.
  const std::vector<float> zeros =
      Decoded(Encoded({0.f, -0.f, 0x1p-140f, -0x1p-127f}, 4), 4);
  for (const float zero : zeros) {
    EXPECT_EQ(zero, 0.f);
    EXPECT_FALSE(std::signbit(zero));
  }
  EXPECT_EQ(Encoded({-0.f, 0.f}, 2), std::string("\x01\0\0", 3));
  EXPECT_EQ(Decoded(Encoded({0x1p-126f, -0x1p-126f}, 2), 2),
            (std::vector<float>{0x1p-126f, -0x1p-126f}));
  // The largest numbers.
  const float most = 127 * 0x1p121f;
  EXPECT_EQ(Decoded(Encoded({most, -most, 1.f}, 3), 3),
            (std::vector<float>{most, -most, 0.f}));
}

TEST(RowCodecTest, ARowWithANumberThatIsNotFiniteIsNan) {
  for (const float wrong : {kNan, -kNan, kInfinity, -kInfinity, 3.4e38f}) {
    const std::string bytes = Encoded({1.f, wrong, 2.f, 3.f, 4.f, 5.f}, 3);
    EXPECT_EQ(bytes.substr(0, 4), std::string("\xff\0\0\0", 4));
    const std::vector<float> decoded = Decoded(bytes, 3);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(decoded[i]));
    // Other rows are not affected.
    EXPECT_EQ(decoded[3], 3.f);
    EXPECT_TRUE(
        SameBits(decoded, Rounded({1.f, wrong, 2.f, 3.f, 4.f, 5.f}, 3)));
  }
}

// So that encoding a sum loses nothing.
TEST(RowCodecTest, RoundingARoundedRowChangesNothing) {
  for (const int dim : {1, 3, 16}) {
    const std::vector<float> once = Rounded(Rows(3000, dim, 7), dim);
    EXPECT_TRUE(SameBits(Rounded(once, dim), once));
    EXPECT_TRUE(SameBits(Decoded(Encoded(once, dim), dim), once));
    const std::vector<float> other = Rounded(Rows(3000, dim, 8), dim);
    for (size_t at = 0; at < once.size(); at += dim) {
      std::vector<float> sum(dim), expected(dim);
      SumRow(EIGHT_BIT_ROWS, &once[at], &other[at], sum.data(), dim);
      for (int i = 0; i < dim; ++i) expected[i] = once[at + i] + other[at + i];
      EXPECT_TRUE(SameBits(sum, Rounded(expected, dim)));
    }
  }
}

TEST(RowCodecTest, RefusesBytesThatNoEncoderWrites) {
  const std::string good = Encoded({1.f, -2.f, 3.f, 4.f}, 2);
  std::vector<float> values(4);
  const auto decode = [&](size_t place, int byte) {
    std::string bytes = good;
    bytes[place] = static_cast<char>(byte);
    return DecodeRows(EIGHT_BIT_ROWS, bytes.data(), 2, 2, values.data());
  };
  for (const int scale : {1, 127, 248, 255})
    EXPECT_EQ(decode(3, scale), absl::OkStatus());
  for (const int scale : {0, 249, 250, 254}) {
    EXPECT_THAT(decode(3, scale), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr(std::to_string(scale))));
  }
  EXPECT_EQ(decode(5, -127), absl::OkStatus());
  EXPECT_THAT(decode(5, -128),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("-128")));
}

}  // namespace
}  // namespace tributary
