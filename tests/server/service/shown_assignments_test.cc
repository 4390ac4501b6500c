#include "server/service/shown_assignments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int kShownLeaves = 8;

Assigned Leaves(int begin, int end, int64_t generation = 1) {
  Assigned assigned;
  assigned.set_generation(generation);
  assigned.set_leaf_begin(begin);
  assigned.set_leaf_end(end);
  return assigned;
}

TEST(ShownAssignmentsTest, RefusesEverythingBeforeTheFirst) {
  EXPECT_THAT(ShownAssignments().Check(0, 1, kShownLeaves),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("before the worker has sent Assigned")));
}

TEST(ShownAssignmentsTest, AcceptsNodesInsideOfTheAssignment) {
  ShownAssignments shown;
  shown.Add(Leaves(2, 6), /*newest_step=*/0);
  for (const int node : {10, 13, 5, 6}) {
    EXPECT_TRUE(shown.Check(100, node, kShownLeaves).ok()) << node;
  }
  for (const int node : {9, 14, 4, 7, 2, 3, 1}) {
    EXPECT_THAT(
        shown.Check(100, node, kShownLeaves),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2, 6)")))
        << node;
  }
}

TEST(ShownAssignmentsTest, AnEarlierAssignmentHoldsForTheOpenSteps) {
  ShownAssignments shown;
  shown.Add(Leaves(0, 4), /*newest_step=*/0);
  shown.Add(Leaves(4, 8, 2), /*newest_step=*/5);
  shown.Add(Leaves(0, 1), /*newest_step=*/1);  // It has been shown late.
  EXPECT_TRUE(shown.Check(5, 2, kShownLeaves).ok());
  EXPECT_FALSE(shown.Check(6, 2, kShownLeaves).ok());
  EXPECT_TRUE(shown.Check(6, 3, kShownLeaves).ok());
  // A node may cover micro-batches of both.
  EXPECT_TRUE(shown.Check(5, 1, kShownLeaves).ok());
  // A later assignment does not extend it again.
  shown.Add(Leaves(6, 8, 3), /*newest_step=*/9);
  EXPECT_FALSE(shown.Check(6, 2, kShownLeaves).ok());
  EXPECT_TRUE(shown.Check(9, 3, kShownLeaves).ok());
}

}  // namespace
}  // namespace tributary
