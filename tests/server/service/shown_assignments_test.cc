#include "server/service/shown_assignments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int kShownLeaves = 8;
constexpr int kShownChunk = 5;

Assigned Leaves(int begin, int end, int64_t generation = 1) {
  Assigned assigned;
  assigned.set_generation(generation);
  assigned.set_leaf_begin(begin);
  assigned.set_leaf_end(end);
  return assigned;
}

TEST(ShownAssignmentsTest, RefusesEverythingBeforeTheFirst) {
  EXPECT_THAT(ShownAssignments().Check(0, 1, kShownLeaves, kShownChunk),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("before the worker has sent Assigned")));
}

TEST(ShownAssignmentsTest, AcceptsNodesInsideOfTheAssignment) {
  ShownAssignments shown;
  shown.Add(Leaves(2, 6), /*newest_step=*/0);
  for (const int node : {10, 13, 5, 6}) {
    EXPECT_TRUE(shown.Check(100, node, kShownLeaves, kShownChunk).ok()) << node;
  }
  for (const int node : {9, 14, 4, 7, 2, 3, 1}) {
    EXPECT_THAT(
        shown.Check(100, node, kShownLeaves, kShownChunk),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2, 6)")))
        << node;
  }
}

TEST(ShownAssignmentsTest, AnEarlierAssignmentHoldsForTheOpenSteps) {
  ShownAssignments shown;
  shown.Add(Leaves(0, 4), /*newest_step=*/0);
  shown.Add(Leaves(4, 8, 2), /*newest_step=*/5);
  shown.Add(Leaves(0, 1), /*newest_step=*/1);  // It has been shown late.
  EXPECT_TRUE(shown.Check(5, 2, kShownLeaves, kShownChunk).ok());
  EXPECT_FALSE(shown.Check(6, 2, kShownLeaves, kShownChunk).ok());
  EXPECT_TRUE(shown.Check(6, 3, kShownLeaves, kShownChunk).ok());
  // A node may cover micro-batches of both.
  EXPECT_TRUE(shown.Check(5, 1, kShownLeaves, kShownChunk).ok());
  // A later assignment does not extend it again.
  shown.Add(Leaves(6, 8, 3), /*newest_step=*/9);
  EXPECT_FALSE(shown.Check(6, 2, kShownLeaves, kShownChunk).ok());
  EXPECT_TRUE(shown.Check(9, 3, kShownLeaves, kShownChunk).ok());
}

Assigned Part(int leaf_begin, int leaf_end, int chunk_begin, int chunk_end,
              int64_t generation) {
  Assigned assigned = Leaves(leaf_begin, leaf_end, generation);
  assigned.set_chunk_begin(chunk_begin);
  assigned.set_chunk_end(chunk_end);
  return assigned;
}

TEST(ShownAssignmentsTest, RefusesOtherChunksOfAssignedMicroBatches) {
  ShownAssignments shown;
  shown.Add(Part(0, 8, 2, 4, 1), /*newest_step=*/0);
  EXPECT_TRUE(shown.Check(0, 1, kShownLeaves, 2).ok());
  EXPECT_TRUE(shown.Check(0, 1, kShownLeaves, 3).ok());
  for (const int chunk : {-1, 0, 1, 4}) {
    EXPECT_THAT(
        shown.Check(0, 1, kShownLeaves, chunk),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2, 4)")))
        << chunk;
  }
}

// A stage without parameters of its own contributes to no chunk.
TEST(ShownAssignmentsTest, ARangeOfChunksMayBeEmpty) {
  ShownAssignments shown;
  shown.Add(Part(0, 8, 3, 3, 1), /*newest_step=*/0);
  for (const int chunk : {0, 2, 3, 4}) {
    EXPECT_FALSE(shown.Check(0, 1, kShownLeaves, chunk).ok()) << chunk;
  }
}

TEST(ShownAssignmentsTest, EarlierChunksHoldForTheirMicroBatchesOnly) {
  ShownAssignments shown;
  shown.Add(Part(0, 4, 0, 2, 1), /*newest_step=*/0);
  shown.Add(Part(4, 8, 1, 3, 2), /*newest_step=*/5);
  // Both assignments have chunk 1.
  EXPECT_TRUE(shown.Check(5, 1, kShownLeaves, 1).ok());
  EXPECT_FALSE(shown.Check(5, 1, kShownLeaves, 0).ok());
  EXPECT_FALSE(shown.Check(5, 1, kShownLeaves, 2).ok());
  EXPECT_TRUE(shown.Check(5, 2, kShownLeaves, 0).ok());
  EXPECT_TRUE(shown.Check(5, 3, kShownLeaves, 2).ok());
  EXPECT_FALSE(shown.Check(6, 2, kShownLeaves, 0).ok());
}

}  // namespace
}  // namespace tributary
