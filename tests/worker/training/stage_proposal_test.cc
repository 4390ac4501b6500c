#include "worker/training/stage_proposal.h"

#include <memory>
#include <string>

#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StageProposalTest : public testing::Test {
 protected:
  absl::StatusOr<StageProposal> Propose(const std::string& pipeline) {
    JobSpec job = TinyJob("mlp", testing::TempDir());
    const absl::Status set = SetField(&job, "parallel.pipeline=" + pipeline);
    EXPECT_TRUE(set.ok()) << set;
    setup_ = TrainingSetup::Create(ResolveJob(job), /*threads=*/1).value();
    graph_ = std::make_unique<Graph>(setup_->BuildGraph().value());
    return ProposeStages(*setup_, *graph_);
  }
  const std::string& LayerName(size_t layer) const {
    return graph_->nodes()[layer].name;
  }

  std::unique_ptr<TrainingSetup> setup_;
  std::unique_ptr<Graph> graph_;
};

TEST_F(StageProposalTest, MeasuresTheLayersUnlessTheJobNamesThem) {
  const StageProposal balanced = Propose("{ stages: 2 }").value();
  ASSERT_THAT(balanced.cuts, SizeIs(1));
  ASSERT_THAT(balanced.descriptions, SizeIs(2));
  const std::string first = LayerName(balanced.cuts[0]);
  EXPECT_THAT(balanced.descriptions[0],
              HasSubstr("to " + LayerName(balanced.cuts[0] - 1) + ";"));
  EXPECT_THAT(balanced.descriptions[1], HasSubstr("layers " + first + " to "));

  const StageProposal named =
      Propose("{ stages: 2 split: '" + first + "' }").value();
  EXPECT_EQ(named.cuts, balanced.cuts);
  EXPECT_THAT(named.descriptions,
              ElementsAre("stage 0: layers " + LayerName(0) + " to " +
                              LayerName(named.cuts[0] - 1),
                          "stage 1: layers " + first + " to " +
                              graph_->nodes().back().name));
}

TEST_F(StageProposalTest, MeasuresNamedStagesOnRequest) {
  const StageProposal balanced = Propose("{ stages: 2 }").value();
  const std::string first = LayerName(balanced.cuts[0]);
  ASSERT_TRUE(Propose("{ stages: 2 split: '" + first + "' }").ok());
  const MeasuredStages measured = MeasureStages(*setup_, *graph_).value();
  ASSERT_THAT(measured.cuts, SizeIs(1));
  EXPECT_EQ(measured.input.cuts[measured.cuts[0]].layer, balanced.cuts[0]);
  ASSERT_THAT(measured.balance.stages, SizeIs(2));
  EXPECT_EQ(measured.balance.stages[1].begin_layer, balanced.cuts[0]);
  for (const BalancedStage& stage : measured.balance.stages) {
    EXPECT_GT(stage.seconds.total(), 0);
  }
}

TEST_F(StageProposalTest, OneStageIsTheWholeModel) {
  const StageProposal whole = Propose("{ stages: 1 }").value();
  EXPECT_THAT(whole.cuts, IsEmpty());
  EXPECT_THAT(whole.descriptions, SizeIs(1));
}

// The model has three layers with parameters, and some without.
TEST_F(StageProposalTest, EachStageHasParameters) {
  const StageProposal proposal = Propose("{ stages: 3 }").value();
  ASSERT_GT(graph_->nodes().size(), 3u);
  ASSERT_THAT(proposal.cuts, SizeIs(2));
  for (const int cut : proposal.cuts) {
    EXPECT_FALSE(graph_->nodes()[cut].parameters.empty()) << LayerName(cut);
  }
  EXPECT_THAT(Propose("{ stages: 4 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.stages")));
}

TEST_F(StageProposalTest, NamesTheFieldThatDoesNotFitTheModel) {
  EXPECT_THAT(Propose("{ stages: 60 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.stages")));
  EXPECT_THAT(Propose("{ stages: 2 split: 'nothing' }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("parallel.pipeline.split")));
}

}  // namespace
}  // namespace tributary
