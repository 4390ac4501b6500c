// How long layers take, while other programs use the machine.
#include "worker/models/stages/layer_costs.h"

#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// Adds runs that take `milliseconds` each, and at least 1 ms.
void Add(int count, double milliseconds, std::vector<TimedRun>* runs) {
  for (int i = 0; i < count; ++i) {
    runs->push_back({absl::Milliseconds(milliseconds), absl::Milliseconds(1)});
  }
}

TEST(LayerCostsTest, NothingIsSlowWithoutRuns) {
  EXPECT_EQ(TypicalSlowdown({}), 1);
  EXPECT_EQ(TypicalSlowdown({{absl::Seconds(1), absl::ZeroDuration()}}), 1);
}

TEST(LayerCostsTest, AFewLongRunsAreMeasured) {
  std::vector<TimedRun> runs;
  Add(1, 30, &runs);
  EXPECT_DOUBLE_EQ(TypicalSlowdown(runs), 30);
  Add(1, 10, &runs);
  EXPECT_DOUBLE_EQ(TypicalSlowdown(runs), 20);
}

// Of each 100 ms, the thread runs for 25 ms only.
TEST(LayerCostsTest, AQuotaOfCpuTimeCounts) {
  std::vector<TimedRun> runs;
  for (int period = 0; period < 5; ++period) {
    Add(24, 1, &runs);
    Add(1, 76, &runs);
  }
  EXPECT_DOUBLE_EQ(TypicalSlowdown(runs), 4);
}

TEST(LayerCostsTest, AnInterruptionDoesNotCount) {
  std::vector<TimedRun> runs;
  Add(200, 1, &runs);
  Add(1, 1000, &runs);
  Add(100, 1, &runs);
  Add(30, 9, &runs);
  Add(220, 1, &runs);
  EXPECT_DOUBLE_EQ(TypicalSlowdown(runs), 1);
}

TEST(LayerCostsTest, ALoadThatStaysCounts) {
  std::vector<TimedRun> runs;
  Add(70, 1, &runs);
  Add(200, 2, &runs);
  EXPECT_DOUBLE_EQ(TypicalSlowdown(runs), 2);
}

}  // namespace
}  // namespace tributary
