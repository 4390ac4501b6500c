#include "common/optimizer/stated_rates.h"

#include <limits>
#include <optional>

#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

TEST(StatedRatesTest, KnowsTheRatesThatWereStated) {
  StatedRates rates;
  EXPECT_EQ(rates.Of(3), std::nullopt);
  EXPECT_EQ(rates.Add(3, 0.5), absl::OkStatus());
  EXPECT_EQ(rates.Add(3, 0.5), absl::OkStatus());
  EXPECT_EQ(rates.Add(1, 0), absl::OkStatus());
  EXPECT_EQ(rates.Of(3), 0.5);
  EXPECT_EQ(rates.Of(1), 0.0);
  EXPECT_EQ(rates.Of(2), std::nullopt);
}

TEST(StatedRatesTest, RefusesASecondRateAndWhatIsNoRate) {
  StatedRates rates;
  EXPECT_EQ(rates.Add(3, 0.5), absl::OkStatus());
  for (const double wrong :
       {0.25, -0.5, std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_THAT(rates.Add(3, wrong),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::HasSubstr("step 3")));
  }
  EXPECT_EQ(rates.Of(3), 0.5);
}

TEST(StatedRatesTest, ForgetsOldSteps) {
  StatedRates rates;
  for (int64_t step = 0; step < 10000; ++step) {
    EXPECT_EQ(rates.Add(step, 0.5), absl::OkStatus());
  }
  EXPECT_EQ(rates.Of(0), std::nullopt);
  EXPECT_EQ(rates.Of(9000), 0.5);
}

TEST(StatedRatesTest, AMissingRateIsAnErrorIfRatesAreRequired) {
  StatedRates rates;
  EXPECT_EQ(rates.Add(3, std::nullopt), absl::OkStatus());
  EXPECT_EQ(rates.Of(3), std::nullopt);
  StatedRates required(/*required=*/true);
  EXPECT_THAT(required.Add(3, std::nullopt),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(required.Add(3, 0.5), absl::OkStatus());
}

}  // namespace
}  // namespace tributary
