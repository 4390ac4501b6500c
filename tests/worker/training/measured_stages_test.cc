#include "worker/training/measured_stages.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/job/job.h"
#include "common/optimizer/optimizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class MeasuredStagesTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<StageSegment>> Describe(
      const std::string& pipeline, const RunClock& clock = &MonotonicNow,
      int hidden = 0) {
    JobSpec job = TinyJob("mlp", testing::TempDir());
    for (const std::string& field :
         {"parallel.pipeline=" + pipeline, "exchange=" + exchange_,
          std::string("optimizer={ adamw { learning_rate: 0.1 } }")}) {
      const absl::Status set = SetField(&job, field);
      EXPECT_TRUE(set.ok()) << set;
    }
    if (hidden > 0) job.mutable_model()->mutable_mlp()->clear_hidden();
    for (int i = 0; i < hidden; ++i) {
      job.mutable_model()->mutable_mlp()->add_hidden(2);
    }
    setup_ = TrainingSetup::Create(ResolveJob(job), /*threads=*/1).value();
    graph_ = std::make_unique<Graph>(setup_->BuildGraph().value());
    return DescribeSegments(*setup_, *graph_, clock);
  }
  const std::string& LayerName(size_t layer) const {
    return graph_->nodes()[layer].name;
  }

  std::string exchange_ = "{ parameter_server { chunk_bytes: 4096 } }";
  std::unique_ptr<TrainingSetup> setup_;
  std::unique_ptr<Graph> graph_;
};

// The model has three layers with parameters, and some without.
TEST_F(MeasuredStagesTest, MeasuresAllPartsOfWhichStagesMayConsist) {
  const auto segments = Describe("{ stages: 2 }").value();
  ASSERT_THAT(segments, SizeIs(3));
  int layer = 0;
  for (const StageSegment& segment : segments) {
    const StageParameters& parameters = segment.parameters();
    EXPECT_EQ(parameters.layer_begin(), layer);
    EXPECT_EQ(segment.first_layer(), LayerName(layer));
    EXPECT_FALSE(graph_->nodes()[layer].parameters.empty());
    EXPECT_EQ(segment.input_bytes() > 0, layer > 0);
    EXPECT_GT(parameters.read_chunk_size(), 0);
    layer = parameters.layer_end();
    EXPECT_EQ(segment.last_layer(), LayerName(layer - 1));
    EXPECT_GT(segment.forward_seconds(), 0);
    EXPECT_GT(segment.backward_weights_seconds(), 0);
    EXPECT_GT(segment.parameter_bytes(), 0);
    EXPECT_GT(segment.activation_bytes(), 0);
    EXPECT_EQ(segment.learner_bytes(), 0);
  }
  EXPECT_EQ(layer, static_cast<int>(graph_->nodes().size()));
  EXPECT_THAT(Describe("{ stages: 4 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.stages")));
}

TEST_F(MeasuredStagesTest, MeasuresNoTimesIfNobodyNeedsThem) {
  const auto segments = Describe("{ stages: 2 }", /*clock=*/nullptr).value();
  ASSERT_THAT(segments, SizeIs(3));
  const std::string split =
      "{ stages: 2 split: '" + segments[1].first_layer() + "' }";
  const auto named = Describe(split).value();
  ASSERT_THAT(named, SizeIs(2));
  EXPECT_EQ(named[1].first_layer(), segments[1].first_layer());
  const auto whole = Describe("{ stages: 1 }").value();
  ASSERT_THAT(whole, SizeIs(1));
  int64_t bytes = 0;
  for (const auto& list : {segments, named, whole}) {
    int64_t sum = 0;
    for (const StageSegment& segment : list) {
      EXPECT_EQ(segment.forward_seconds(), 0);
      sum += segment.parameter_bytes();
    }
    EXPECT_TRUE(bytes == 0 || bytes == sum);
    bytes = sum;
  }
}

TEST_F(MeasuredStagesTest, TheClockOfTheWorkerCounts) {
  const auto total = [this](double slowness) {
    const auto segments = Describe("{ stages: 2 }", [slowness] {
      return absl::UnixEpoch() +
             (MonotonicNow() - absl::UnixEpoch()) * slowness;
    });
    double seconds = 0;
    for (const StageSegment& segment : *segments) {
      seconds += segment.forward_seconds() + segment.backward_input_seconds() +
                 segment.backward_weights_seconds();
    }
    return seconds;
  };
  // Measurements differ, but not by a factor of 100.
  EXPECT_GT(total(/*slowness=*/1000), 10 * total(/*slowness=*/1));
}

TEST_F(MeasuredStagesTest, MembersOfAnAllReduceHoldTheOptimizersState) {
  const int64_t bytes =
      Describe("{ stages: 1 }").value()[0].parameter_bytes() / 3;
  const auto optimizer = Optimizer::Create(setup_->job().optimizer()).value();
  ASSERT_GT(optimizer->slots(), 0);
  exchange_ = "{ all_reduce {} }";
  EXPECT_EQ(Describe("{ stages: 1 }").value()[0].parameter_bytes(),
            (3 + optimizer->slots()) * bytes);
  exchange_ = "{ all_reduce { shard_optimizer: true } }";
  EXPECT_EQ(Describe("{ stages: 1 }").value()[0].parameter_bytes(), 3 * bytes);
}

TEST_F(MeasuredStagesTest, ManyLayersMakeAsManySegmentsAsServersAccept) {
  const auto all = Describe("{ stages: 2 }", nullptr, kMostSegments - 1);
  EXPECT_THAT(*all, SizeIs(kMostSegments));
  const auto some = Describe("{ stages: 2 }", nullptr, kMostSegments);
  ASSERT_THAT(*some, SizeIs(kMostSegments / 2 + 1));
  EXPECT_EQ(some->back().parameters().layer_end(),
            static_cast<int>(graph_->nodes().size()));
}

TEST_F(MeasuredStagesTest, MeasuresNamedStagesForPlans) {
  const StageSegment second = Describe("{ stages: 2 }").value()[1];
  ASSERT_TRUE(
      Describe("{ stages: 2 split: '" + second.first_layer() + "' }").ok());
  const MeasuredStages measured = MeasureStages(*setup_, *graph_).value();
  ASSERT_THAT(measured.cuts, SizeIs(1));
  EXPECT_EQ(measured.input.cuts[measured.cuts[0]].layer,
            second.parameters().layer_begin());
  ASSERT_THAT(measured.balance.stages, SizeIs(2));
  EXPECT_EQ(measured.balance.stages[1].begin_layer,
            second.parameters().layer_begin());
  for (const BalancedStage& stage : measured.balance.stages) {
    EXPECT_GT(stage.seconds.total(), 0);
  }
}

TEST_F(MeasuredStagesTest, NamesTheFieldThatDoesNotFitTheModel) {
  EXPECT_THAT(Describe("{ stages: 60 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.stages")));
  EXPECT_THAT(Describe("{ stages: 2 split: 'nothing' }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.split")));
}

}  // namespace
}  // namespace tributary
