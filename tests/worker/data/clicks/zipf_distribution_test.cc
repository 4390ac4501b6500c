#include "worker/data/clicks/zipf_distribution.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// Sums of r^-exponent for r from 1 to `values`, added from the smallest.
std::vector<double> Sums(int64_t values, double exponent) {
  std::vector<double> sums = {0};
  long double sum = 0;
  for (int64_t r = 1; r <= values; ++r) {
    sum += std::pow(static_cast<long double>(r), -exponent);
    sums.push_back(static_cast<double>(sum));
  }
  return sums;
}

TEST(ZipfDistributionTest, HasTheProbabilitiesOfTheLaw) {
  for (const int64_t values : {1, 2, 3, 1000, 1024, 1025, 100000}) {
    for (const double exponent : {0.0, 0.5, 0.999999, 1.0, 1.05, 2.0, 4.0}) {
      const ZipfDistribution zipf(values, exponent);
      const std::vector<double> sums = Sums(values, exponent);
      for (int64_t r = 0; r <= values; r += 1 + r / 10) {
        EXPECT_NEAR(zipf.Cumulative(r), sums[r] / sums.back(), 1e-7)
            << r << " of " << values << ", exponent " << exponent;
      }
      EXPECT_EQ(zipf.Cumulative(values), 1);
    }
  }
}

TEST(ZipfDistributionTest, QuantilesInvertTheProbabilities) {
  for (const int64_t values : {1, 2, 3, 1024, 1025, 5000, 10131227}) {
    for (const double exponent : {0.0, 0.5, 1.0, 1.05, 2.0, 4.0}) {
      const ZipfDistribution zipf(values, exponent);
      for (int i = 0; i < 2000; ++i) {
        const double probability = i / 2000.0;
        const int64_t r = zipf.Quantile(probability);
        ASSERT_GE(r, 1);
        ASSERT_LE(r, values);
        // The tolerance is that of rounding.
        EXPECT_LE(zipf.Cumulative(r - 1), probability + 1e-12)
            << values << ", exponent " << exponent;
        EXPECT_GE(zipf.Cumulative(r), probability - 1e-12)
            << values << ", exponent " << exponent;
      }
    }
  }
}

TEST(ZipfDistributionTest, HasTheSameValuesEverywhere) {
  // Regression values: the samples of data.clicks depend on them.
  const ZipfDistribution zipf(10131227, 1.05);
  EXPECT_EQ(zipf.Quantile(0), 1);
  EXPECT_EQ(zipf.Quantile(0.3), 23);
  EXPECT_EQ(zipf.Quantile(0.7), 13663);
  EXPECT_EQ(zipf.Quantile(1 - 0x1p-33), 10131227);
}

}  // namespace
}  // namespace tributary
