// The arithmetic of common/cuda/flushed.h against the processor's.
#include "common/cuda/flushed.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/numerics/flush_denormals.h"
#include "gtest/gtest.h"

namespace tributary::cuda {
namespace {

// Not inlined: see FlushDenormals.
__attribute__((noinline)) void Compute(float a, float b, float* results) {
  volatile float x = a;
  volatile float y = b;
  results[0] = x + y;
  results[1] = x - y;
  results[2] = x * y;
  results[3] = x / y;
  results[4] = std::sqrt(x);
  results[5] = x < y;
}

std::vector<float> Interesting() {
  std::vector<float> values = {0.0f, std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::denorm_min()};
  // Around powers of two, where results round to 2^-126 from below.
  for (int exponent = -149; exponent < 128; ++exponent) {
    if (exponent > -120 && exponent < 120 && exponent % 7 != 0 &&
        std::abs(exponent) > 2 && std::abs(std::abs(exponent) - 63) > 2) {
      continue;
    }
    const float power = std::ldexp(1.0f, exponent);
    for (const float value :
         {power, std::nextafter(power, 0.0f), std::nextafter(power, 1e38f),
          std::nextafter(std::nextafter(power, 0.0f), 0.0f), 1.5f * power}) {
      values.push_back(value);
    }
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

bool Same(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(Flushed, HasTheBitsOfAProcessorThatFlushes) {
  const std::vector<float> values = Interesting();
  int64_t differences = 0;
  for (const float a : values) {
    for (const float b : values) {
      float expected[6];
      {
        const FlushDenormals flush;
        Compute(a, b, expected);
      }
      const Flushed x(a), y(b);
      const float results[6] = {(x + y).value(),       (x - y).value(),
                                (x * y).value(),       (x / y).value(),
                                SquareRoot(x).value(), x < y ? 1.0f : 0.0f};
      for (int i = 0; i < 6; ++i) {
        if (Same(results[i], expected[i])) continue;
        if (++differences > 10) continue;
        ADD_FAILURE() << "operation " << i << " of " << std::hexfloat << a
                      << " and " << b << ": " << results[i] << " in place of "
                      << expected[i];
      }
    }
  }
  EXPECT_EQ(differences, 0);
}

}  // namespace
}  // namespace tributary::cuda
