#include "library/job_metrics.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

class JobMetricsTest : public ::testing::Test {
 protected:
  JobMetrics metrics_{
      [this](const Job::StepMetrics& step) { steps_.push_back(step); },
      [this](const Job::Evaluation& evaluation) {
        evaluated_.push_back(evaluation.step);
        accuracy_ = evaluation.accuracy;
      }};
  std::vector<Job::StepMetrics> steps_;
  std::vector<int64_t> evaluated_;
  double accuracy_ = 0;
};

TEST_F(JobMetricsTest, PassesTheValuesOfAStep) {
  metrics_.Add(
      R"({"step": 3, "loss": 0.5, "learning_rate": 0.1, "samples": 16,
          "samples_per_second": 8.0, "step_seconds": 2.0})");
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_EQ(steps_[0].step, 3);
  EXPECT_EQ(steps_[0].loss, 0.5);
  EXPECT_EQ(steps_[0].learning_rate, 0.1);
  EXPECT_EQ(steps_[0].samples, 16);
  EXPECT_EQ(steps_[0].seconds, 2);
}

TEST_F(JobMetricsTest, ALossThatIsNotFiniteIsNaN) {
  metrics_.Add(
      R"({"step": 1, "loss": null, "samples": 4, "samples_per_second": 1})");
  ASSERT_EQ(steps_.size(), 1u);
  EXPECT_TRUE(std::isnan(steps_[0].loss));
}

TEST_F(JobMetricsTest, RepeatedStepsAndEvaluationsArePassedOnce) {
  for (const char* line : {
           R"({"step": 0, "evaluation_loss": 3, "evaluation_accuracy": 0.3})",
           R"({"step": 1, "samples": 4, "samples_per_second": 1})",
           R"({"step": 2, "samples": 4, "samples_per_second": 1})",
           R"({"step": 2, "evaluation_loss": 2, "evaluation_accuracy": 0.5})",
           R"({"step": 2, "samples": 4, "samples_per_second": 1})",
           R"({"step": 2, "evaluation_loss": 2, "evaluation_accuracy": 0.6})",
           R"({"step": 3, "samples": 4, "samples_per_second": 1})",
       }) {
    metrics_.Add(line);
  }
  std::vector<int64_t> steps;
  for (const Job::StepMetrics& step : steps_) steps.push_back(step.step);
  EXPECT_THAT(steps, ElementsAre(1, 2, 3));
  EXPECT_THAT(evaluated_, ElementsAre(0, 2));
  EXPECT_EQ(accuracy_, 0.5);
}

TEST_F(JobMetricsTest, IgnoresOtherLines) {
  metrics_.Add(R"({"step": 1, "skipped": "gradient is not finite"})");
  metrics_.Add("");
  EXPECT_TRUE(steps_.empty());
  EXPECT_TRUE(evaluated_.empty());
}

}  // namespace
}  // namespace tributary
