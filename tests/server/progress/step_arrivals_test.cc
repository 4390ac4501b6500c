#include "server/progress/step_arrivals.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

class StepArrivalsTest : public ::testing::Test {
 protected:
  void Add(int64_t step, int64_t incarnation, int milliseconds) {
    now_ = absl::UnixEpoch() + absl::Milliseconds(milliseconds);
    arrivals_.Add(step, incarnation);
  }

  absl::Time now_;
  StepArrivals arrivals_{[this] { return now_; }};
};

TEST_F(StepArrivalsTest, NotesEachWorkersLastContribution) {
  Add(0, /*incarnation=*/7, 1000);
  Add(0, /*incarnation=*/4, 1250);
  Add(0, /*incarnation=*/7, 1500);
  StepSums sums;
  sums.set_step(0);
  arrivals_.Take(0, &sums);
  EXPECT_THAT(sums.contributor(), ElementsAre(4, 7));
  EXPECT_THAT(sums.contributor_seconds(), ElementsAre(0.25f, 0.5f));
}

TEST_F(StepArrivalsTest, KeepsOpenStepsApartAndForgetsOldOnes) {
  Add(0, /*incarnation=*/1, 0);
  Add(1, /*incarnation=*/2, 100);
  Add(2, /*incarnation=*/3, 200);
  Add(1, /*incarnation=*/1, 600);
  StepSums sums;
  arrivals_.Take(1, &sums);
  EXPECT_THAT(sums.contributor(), ElementsAre(1, 2));
  EXPECT_THAT(sums.contributor_seconds(), ElementsAre(0.5f, 0.0f));
  // Too late.
  Add(0, /*incarnation=*/1, 700);
  Add(1, /*incarnation=*/1, 700);
  for (const int64_t step : {0, 1}) {
    StepSums nothing;
    arrivals_.Take(step, &nothing);
    EXPECT_EQ(nothing.contributor_size(), 0);
  }
  StepSums next;
  arrivals_.Take(2, &next);
  EXPECT_THAT(next.contributor(), ElementsAre(3));
}

TEST_F(StepArrivalsTest, IgnoresWhatIsFarAhead) {
  Add(int64_t{1} << 40, /*incarnation=*/1, 0);
  Add(-1, /*incarnation=*/1, 0);
  StepSums sums;
  arrivals_.Take(int64_t{1} << 40, &sums);
  EXPECT_EQ(sums.contributor_size(), 0);
}

}  // namespace
}  // namespace tributary
