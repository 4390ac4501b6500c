// JobProgress with external data, of which only the workers know how many
// samples count.
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/progress/job_progress.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

constexpr int64_t kSteps = 4;

class ExternalDataProgressTest : public ::testing::Test {
 protected:
  ExternalDataProgressTest() : progress_(Job(), Facts(), /*chunks=*/1, 1) {
    progress_.Begin(now_);
  }

  static JobSpec Job() {
    JobSpec job;
    job.mutable_data()->mutable_external()->set_units_per_sample(8);
    job.mutable_evaluation()->set_batch(2);
    job.mutable_evaluation()->set_every_steps(2);
    return job;
  }
  static DataFacts Facts() {
    DataFacts facts;
    facts.set_steps(kSteps);
    facts.set_steps_per_epoch(1);
    facts.set_evaluation_pieces(1);
    return facts;
  }

  void Step(int64_t step, int64_t sample_count, double loss_sum) {
    StepSums sums;
    sums.set_step(step);
    sums.add_sum_of_squares(9);
    sums.set_weight(sample_count);
    sums.set_loss_sum(loss_sum);
    const auto norm = progress_.AddSums(/*shard=*/0, sums, now_);
    ASSERT_TRUE(norm.ok()) << norm.status();
    ASSERT_TRUE(norm->has_value());
    norm_ = (*norm)->norm();
  }
  absl::StatusOr<bool> Evaluate(int64_t version, int64_t sample_count,
                                double loss_sum) {
    EvaluationReport report;
    report.set_version(version);
    report.set_weight(sample_count);
    report.set_loss_sum(loss_sum);
    return progress_.AddEvaluation(report, now_);
  }

  const absl::Time now_ = absl::UnixEpoch();
  JobProgress progress_;
  double norm_ = 0;
};

TEST_F(ExternalDataProgressTest, AStepWithoutSamplesKeepsTheLoss) {
  Step(0, /*sample_count=*/3, /*loss_sum=*/6);
  EXPECT_EQ(progress_.Totals().loss, 2);
  EXPECT_EQ(norm_, 1);
  Step(1, /*sample_count=*/0, /*loss_sum=*/0);
  EXPECT_EQ(progress_.Totals().loss, 2);
  EXPECT_EQ(norm_, 3);
}

TEST_F(ExternalDataProgressTest, APieceHasAnyCountUpToTheLargest) {
  EXPECT_THAT(
      Evaluate(2, /*sample_count=*/17, /*loss_sum=*/6),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "evaluation of version 2, piece 0: weight is 17, expected from "
               "0 to 16: the samples (tokens) of the piece"));
  EXPECT_TRUE(*Evaluate(2, /*sample_count=*/0, /*loss_sum=*/0));
  EXPECT_EQ(progress_.evaluations().evaluation()->loss, 0);
  EXPECT_TRUE(*Evaluate(4, /*sample_count=*/3, /*loss_sum=*/12));
  EXPECT_EQ(progress_.evaluations().evaluation()->loss, 4);
}

}  // namespace
}  // namespace tributary
