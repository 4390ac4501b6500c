#include "worker/exchange/stages/transfer_plan.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr auto kRouteKind = StageTransfer::ACTIVATION;
constexpr auto kOtherKind = StageTransfer::ACTIVATION_GRADIENT;
constexpr auto kImpossible = absl::StatusCode::kInvalidArgument;

TEST(TransferPlanTest, SlotsDoNotOverlap) {
  const auto plan = TransferPlan::Create(
      {{0, kRouteKind, 5000, 3}, {0, kOtherKind, 0, 2}, {1, kOtherKind, 1, 2}},
      /*micro_batches=*/4);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->slot_count(), 7);
  EXPECT_EQ(plan->memory_bytes(), 3 * 8192 + 2 * 4096);
  EXPECT_EQ(plan->Find(1, kOtherKind), 2);
  EXPECT_EQ(plan->Find(1, kRouteKind), -1);
  EXPECT_EQ(plan->SlotOffset(0, 2), 2 * 8192);
  EXPECT_EQ(plan->SlotOffset(2, 0), 3 * 8192);
  EXPECT_EQ(plan->SlotOffset(2, 1), 3 * 8192 + 4096);
  EXPECT_EQ(plan->SlotNumber(2, 1), 6);
}

TEST(TransferPlanTest, SignatureDependsOnEveryField) {
  const TransferRoute route = {2, kRouteKind, 100, 3};
  const std::string signature = TransferPlan::Create({route}, 4)->signature();
  EXPECT_EQ(TransferPlan::Create({route}, 4)->signature(), signature);
  EXPECT_NE(TransferPlan::Create({route}, 5)->signature(), signature);
  EXPECT_NE(TransferPlan::Create({{1, kRouteKind, 100, 3}}, 4)->signature(),
            signature);
  EXPECT_NE(TransferPlan::Create({{2, kOtherKind, 100, 3}}, 4)->signature(),
            signature);
  EXPECT_NE(TransferPlan::Create({{2, kRouteKind, 101, 3}}, 4)->signature(),
            signature);
  EXPECT_NE(TransferPlan::Create({{2, kRouteKind, 100, 2}}, 4)->signature(),
            signature);
}

TEST(TransferPlanTest, RefusesImpossibleRoutes) {
  const auto create = [](std::vector<TransferRoute> routes) {
    return TransferPlan::Create(std::move(routes), 4).status();
  };
  EXPECT_THAT(create({{0, kRouteKind, 1, 0}}),
              StatusIs(kImpossible, HasSubstr("slots")));
  EXPECT_THAT(create({{0, kRouteKind, -1, 1}}),
              StatusIs(kImpossible, HasSubstr("max_bytes")));
  EXPECT_THAT(create({{-1, kRouteKind, 1, 1}}),
              StatusIs(kImpossible, HasSubstr("boundary")));
  EXPECT_THAT(create({{0, StageTransfer::KIND_UNSPECIFIED, 1, 1}}),
              StatusIs(kImpossible, HasSubstr("kind")));
  EXPECT_THAT(create({{0, kRouteKind, 1, 1}, {0, kRouteKind, 2, 1}}),
              StatusIs(kImpossible, HasSubstr("twice")));
  EXPECT_THAT(create({{0, kRouteKind, int64_t{1} << 45, 3}}),
              StatusIs(kImpossible, HasSubstr("bytes")));
  EXPECT_THAT(TransferPlan::Create({}, 0),
              StatusIs(kImpossible, HasSubstr("micro_batches")));
}

TEST(TransferPlanTest, ChecksTransfers) {
  const TransferPlan plan =
      *TransferPlan::Create({{1, kRouteKind, 10, 1}}, /*micro_batches=*/4);
  EXPECT_EQ(*plan.RouteOf({0, 3, 1, kRouteKind}, 10), 0);
  EXPECT_EQ(
      *plan.RouteOf({std::numeric_limits<int64_t>::max(), 0, 1, kRouteKind}, 0),
      0);
  EXPECT_THAT(plan.RouteOf({0, 4, 1, kRouteKind}, 10), StatusIs(kImpossible));
  EXPECT_THAT(plan.RouteOf({0, -1, 1, kRouteKind}, 10), StatusIs(kImpossible));
  EXPECT_THAT(plan.RouteOf({-1, 0, 1, kRouteKind}, 10), StatusIs(kImpossible));
  EXPECT_THAT(plan.RouteOf({0, 0, 1, kOtherKind}, 10), StatusIs(kImpossible));
  EXPECT_THAT(plan.RouteOf({0, 0, 1, kRouteKind}, 11), StatusIs(kImpossible));
  EXPECT_THAT(plan.RouteOf({0, 0, 1, kRouteKind}, -1), StatusIs(kImpossible));
}

TEST(TransferPlanTest, EvaluationHasAnyNumberOfPieces) {
  const TransferPlan plan = *TransferPlan::Create(
      {{1, StageTransfer::EVALUATION, 10, 1}}, /*micro_batches=*/4);
  EXPECT_EQ(*plan.RouteOf({0, 1000, 1, StageTransfer::EVALUATION}, 10), 0);
  EXPECT_THAT(plan.RouteOf({0, -1, 1, StageTransfer::EVALUATION}, 10),
              StatusIs(kImpossible));
}

}  // namespace
}  // namespace tributary
