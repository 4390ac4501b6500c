#include "common/update/chunk_group.h"

#include <limits>
#include <optional>

#include "gtest/gtest.h"
#include "tests/common/update/chunk_fixture.h"

namespace tributary {
namespace {

class ChunkGroupTest : public ChunkFixture {
 protected:
  ChunkGroupTest() {
    for (const int number : {0, 1}) {
      group_.Add(MakeChunk(number, /*place=*/number, policy_));
      At(number)->Initialize(/*version=*/0, Filled(4), /*slots=*/{});
    }
  }

  ChunkUpdater* At(int number) { return group_.Find(number); }
  // Takes the chunk to its next version, and adds its sum to the group.
  std::optional<StepSums> TakeStep(ChunkGroup* group, ChunkUpdater* chunk,
                                   double squares = 2) {
    const int64_t step = chunk->version();
    ContributeStep(chunk, step);
    RunPass(chunk);
    std::optional<StepSums> sums = group->AddSum(*chunk, squares);
    chunk->Publish(/*more=*/false);
    return sums;
  }

  const OrderedPolicy policy_ = Policy();
  ChunkGroup group_{&policy_, /*steps=*/10};
};

TEST_F(ChunkGroupTest, ReportsAStepWithTheSumOfItsLastChunk) {
  EXPECT_FALSE(TakeStep(&group_, At(1), /*squares=*/5).has_value());
  const std::optional<StepSums> sums = TakeStep(&group_, At(0), /*squares=*/3);
  ASSERT_TRUE(sums.has_value());
  EXPECT_EQ(sums->step(), 0);
  EXPECT_EQ(sums->weight(), 2);
  EXPECT_EQ(sums->loss_sum(), 6);
  ASSERT_EQ(sums->sum_of_squares_size(), 2);
  EXPECT_EQ(sums->sum_of_squares(0), 3);
  EXPECT_EQ(sums->sum_of_squares(1), 5);
  EXPECT_EQ(sums->nonfinite_size(), 0);
}

TEST_F(ChunkGroupTest, NamesTheChunkWhoseSumIsNotFinite) {
  TakeStep(&group_, At(0));
  const std::optional<StepSums> sums =
      TakeStep(&group_, At(1), std::numeric_limits<double>::infinity());
  ASSERT_TRUE(sums.has_value());
  ASSERT_EQ(sums->nonfinite_size(), 1);
  EXPECT_EQ(sums->nonfinite(0).chunk(), 1);
}

TEST_F(ChunkGroupTest, AsksForTheWorkOfItsOldestChunk) {
  EXPECT_EQ(group_.CompleteVersion(), 0);
  TakeStep(&group_, At(0));
  EXPECT_FALSE(Contribute(At(1), 0, 2));
  EXPECT_EQ(group_.CompleteVersion(), 0);
  EXPECT_EQ(group_.FindMissingWork()->step(), 0);
  EXPECT_EQ(group_.FindMissingWork()->leaf(), 1);
  EXPECT_TRUE(Contribute(At(1), 0, 3));
  EXPECT_FALSE(group_.FindMissingWork().has_value());
}

TEST_F(ChunkGroupTest, GroupsMayBeAtDifferentSteps) {
  ChunkGroup other(&policy_, /*steps=*/10);
  other.Add(MakeChunk(/*number=*/1, /*place=*/0, policy_));
  ChunkUpdater* const alone = other.Find(1);
  EXPECT_EQ(other.CompleteVersion(), -1);
  alone->Initialize(/*version=*/0, Filled(4), /*slots=*/{});
  TakeStep(&group_, At(0));
  EXPECT_EQ(TakeStep(&other, alone)->step(), 0);
  EXPECT_EQ(TakeStep(&other, alone)->step(), 1);
  EXPECT_EQ(TakeStep(&group_, At(1))->step(), 0);
  EXPECT_EQ(other.CompleteVersion(), 2);
  EXPECT_EQ(group_.CompleteVersion(), 1);
}

TEST_F(ChunkGroupTest, IsAtTheLastVersionWithoutChunks) {
  const ChunkGroup empty(&policy_, /*steps=*/10);
  EXPECT_EQ(empty.CompleteVersion(), 10);
  EXPECT_EQ(empty.Find(0), nullptr);
}

}  // namespace
}  // namespace tributary
