#include "worker/process/membership_client.h"

#include <memory>
#include <utility>

#include "common/parameters/arena_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_streams.h"
#include "tests/support/status_matchers.h"
#include "worker/state/synchronous_work.h"

namespace tributary {
namespace {

class MembershipClientTest : public testing::Test {
 protected:
  MembershipClientTest() {
    auto stream =
        std::make_unique<FakeClientStream<CoordinatorOrder, WorkerReport>>();
    stream_ = stream.get();
    client_.Begin(std::move(stream), "10.0.0.1:1", Join());
  }

  MembershipClient client_;
  FakeClientStream<CoordinatorOrder, WorkerReport>* stream_ = nullptr;
};

TEST_F(MembershipClientTest, KnowsFromTheCoordinatorThatTheJobIsDone) {
  stream_->End(absl::OutOfRangeError("the job is done; nothing to join"));
  EXPECT_TRUE(IsJobDone(client_.AwaitAdmission().status()));
}

// A file that is too large once ended a worker as if the job were done.
TEST_F(MembershipClientTest, OtherErrorsDoNotMeanThatTheJobIsDone) {
  EXPECT_FALSE(IsJobDone(absl::OutOfRangeError("config.json: larger than 9")));
  stream_->End(absl::UnavailableError("gone"));
  const absl::Status ended = client_.AwaitAdmission().status();
  EXPECT_FALSE(IsJobDone(ended));
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
}

TEST_F(MembershipClientTest, PassesEachAssignmentOnBeforeItHolds) {
  int64_t generation = 0;
  client_.SetDeal([&](const Deal& deal) { generation = deal.generation(); });
  CoordinatorOrder order;
  order.mutable_deal()->set_generation(3);
  // Without a WorkState no order has an effect.
  stream_->Receive(order);
  EXPECT_EQ(generation, 0);
  stream_->End(absl::OkStatus());
}

class StagedClientTest : public MembershipClientTest {
 protected:
  StagedClientTest() {
    ParameterTable table;
    table.set_chunk_elements(16);
    auto* const parameter = table.add_parameter();
    parameter->set_name("p");
    parameter->add_shape(16);
    parameter->set_group(DECAY);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    client_.Attach(MakeState());
  }
  ~StagedClientTest() override { client_.Detach(); }

  WorkState* MakeState() {
    WorkState::Options options;
    options.steps = 4;
    state_ = std::make_unique<SynchronousWork>(options, layout_.get());
    return state_.get();
  }
  void OrderStage(int64_t generation) {
    CoordinatorOrder order;
    order.mutable_stage()->set_generation(generation);
    order.mutable_stage()->set_stage_end(1);
    stream_->Receive(order);
  }

  std::unique_ptr<ArenaLayout> layout_;
  std::unique_ptr<WorkState> state_;
};

TEST_F(StagedClientTest, WaitsForANewerStage) {
  int ordered = 0;
  client_.SetStageOrdered(/*generation=*/2, [&ordered] { ++ordered; });
  OrderStage(3);
  EXPECT_EQ(client_.AwaitStage(0)->generation(), 3);
  OrderStage(5);
  EXPECT_EQ(client_.AwaitStage(3)->generation(), 5);
  EXPECT_EQ(ordered, 2);
  client_.SetStageOrdered(/*generation=*/5, nullptr);
  OrderStage(6);
  EXPECT_EQ(ordered, 2);
  // One that has arrived before counts.
  client_.SetStageOrdered(/*generation=*/6, [&ordered] { ++ordered; });
  EXPECT_EQ(ordered, 2);
  client_.SetStageOrdered(/*generation=*/5, [&ordered] { ++ordered; });
  EXPECT_EQ(ordered, 3);
  stream_->End(absl::UnavailableError("gone"));
  EXPECT_THAT(client_.AwaitStage(6).status(),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(StagedClientTest, AwaitsAGroupUntilOtherStagesAreOrdered) {
  OrderStage(3);
  OrderStage(5);
  EXPECT_THAT(client_.AwaitGroup(/*stage_generation=*/3).status(),
              StatusIs(absl::StatusCode::kAborted));
  CoordinatorOrder order;
  order.mutable_group()->set_member(2);
  stream_->Receive(order);
  EXPECT_EQ(client_.AwaitGroup(/*stage_generation=*/5)->member(), 2);
}

TEST_F(StagedClientTest, ASpareLearnsThatTheJobIsDone) {
  CoordinatorOrder order;
  order.mutable_finished()->set_version(0);
  stream_->Receive(order);
  EXPECT_TRUE(IsJobDone(client_.AwaitStage(0).status()));
  // So does the state that replaces the former one.
  std::unique_ptr<WorkState> former = std::move(state_);
  client_.Attach(MakeState());
  float* to = nullptr;
  ASSERT_EQ(state_->BeginWrite(0, 0, &to), WeightsSink::Arrival::kWrite);
  state_->EndWrite(0, 0);
  EXPECT_EQ(state_->Next().kind, Task::Kind::kFinish);
  stream_->End(absl::OkStatus());
}

TEST_F(StagedClientTest, PassesCompleteStepsOn) {
  int64_t complete = -1;
  client_.SetStepComplete([&complete](int64_t step) { complete = step; });
  CoordinatorOrder order;
  order.mutable_step_complete()->set_step(0);
  float* to = nullptr;
  ASSERT_EQ(state_->BeginWrite(0, 0, &to), WeightsSink::Arrival::kWrite);
  state_->EndWrite(0, 0);
  EXPECT_EQ(state_->Next().kind, Task::Kind::kReportSynced);
  CoordinatorOrder assignment;
  assignment.mutable_deal()->set_generation(1);
  assignment.mutable_deal()->set_leaf_end(1);
  assignment.mutable_deal()->set_stage_end(1);
  stream_->Receive(assignment);
  const Task task = state_->Next();
  EXPECT_FALSE(state_->GivenUp(task));
  stream_->Receive(order);
  EXPECT_EQ(complete, 0);
  EXPECT_TRUE(state_->GivenUp(task));
  client_.SetStepComplete(nullptr);
  stream_->End(absl::OkStatus());
}

}  // namespace
}  // namespace tributary
