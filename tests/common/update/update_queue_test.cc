#include "common/update/update_queue.h"

#include <functional>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/executors.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class UpdateQueueTest : public testing::Test {
 protected:
  UpdateQueue Make(int most, int streams) {
    return UpdateQueue(&pool_, {most, streams,
                                [this](const std::vector<int>& chunks,
                                       std::optional<double> norm) {
                                  groups_.push_back(chunks);
                                  norms_.push_back(norm);
                                },
                                [this] { ++idle_; }});
  }

  HeldExecutor pool_;
  std::vector<std::vector<int>> groups_;
  std::vector<std::optional<double>> norms_;
  int idle_ = 0;
};

TEST_F(UpdateQueueTest, RunsChunksOneByOneTheFirstFirst) {
  UpdateQueue queue = Make(/*most=*/1, /*streams=*/1);
  for (const int chunk : {5, 3, 4}) queue.Add(chunk, std::nullopt);
  EXPECT_EQ(queue.size(), 3);
  EXPECT_THAT(groups_, IsEmpty());
  pool_.RunAll();
  EXPECT_THAT(groups_,
              ElementsAre(ElementsAre(3), ElementsAre(4), ElementsAre(5)));
  EXPECT_EQ(idle_, 1);
}

TEST_F(UpdateQueueTest, ChunksThatAreReadyTogetherRunTogether) {
  UpdateQueue queue = Make(/*most=*/4, /*streams=*/1);
  for (int chunk = 0; chunk < 6; ++chunk) queue.Add(chunk, std::nullopt);
  pool_.RunAll();
  EXPECT_THAT(groups_, ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5)));
  EXPECT_EQ(idle_, 1);
  queue.Add(2, std::nullopt);
  pool_.RunAll();
  EXPECT_THAT(groups_.back(), ElementsAre(2));
  EXPECT_EQ(idle_, 2);
}

TEST_F(UpdateQueueTest, AllStreamsHaveWork) {
  UpdateQueue queue = Make(/*most=*/4, /*streams=*/3);
  for (int chunk = 0; chunk < 5; ++chunk) queue.Add(chunk, std::nullopt);
  pool_.RunAll();
  EXPECT_THAT(groups_, ElementsAre(ElementsAre(0, 1), ElementsAre(2),
                                   ElementsAre(3), ElementsAre(4)));
}

TEST_F(UpdateQueueTest, AGroupHasOneNorm) {
  UpdateQueue queue = Make(/*most=*/4, /*streams=*/1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  queue.Add(0, 1.5);
  queue.Add(1, 1.5);
  queue.Add(2, std::nullopt);
  queue.Add(3, nan);
  queue.Add(4, nan);
  queue.Add(5, 1.5);
  pool_.RunAll();
  EXPECT_THAT(groups_, ElementsAre(ElementsAre(0, 1), ElementsAre(2),
                                   ElementsAre(3, 4), ElementsAre(5)));
  EXPECT_EQ(norms_[0], 1.5);
  EXPECT_EQ(norms_[1], std::nullopt);
}

}  // namespace
}  // namespace tributary
