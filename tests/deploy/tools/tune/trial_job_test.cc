#include "deploy/tools/tune/trial_job.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "deploy/tools/tune/search/point_sampler.h"
#include "deploy/tools/tune/search/search_file.h"
#include "deploy/tools/tune/search/search_space.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kJob[] = R"(
  model { mlp { hidden: 8 } }
  data { random { samples: 64 shape: 4 classes: 3 } }
  batch { global: 8 }
  optimizer { adamw { learning_rate: 0.01 } }
  schedule { decay: COSINE warmup_steps: 5 }
  steps: 90
)";

SearchSpec SearchWith(const std::string& lines) {
  return *ParseSearch(
      absl::StrCat(R"(parameter { path: "optimizer.adamw.learning_rate"
                                  number { low: 1e-3 high: 1 } }
                      parameter { path: "model.mlp.hidden"
                                  choice { value: "8" value: "[4, 4]" } })",
                   lines),
      "search");
}

TEST(TrialJobTest, HasTheValuesOfThePoint) {
  const SearchSpec search = SearchWith("set: \"seed=9\"");
  const JobSpec job = *TrialJob(kJob, search, SearchSpace(search), {0.125, 1});
  EXPECT_EQ(job.optimizer().adamw().learning_rate(), 0.125);
  EXPECT_THAT(job.model().mlp().hidden(), ElementsAre(4, 4));
  EXPECT_EQ(job.seed(), 9u);
}

TEST(JobToSearchTest, TheExampleIsValid) {
  const absl::StatusOr<SearchSpec> search =
      LoadSearch("examples/tune.textproto");
  ASSERT_TRUE(search.ok()) << search.status();
  const std::string job = ReadWholeFile("examples/" + search->job());
  const SearchSpace space(*search);
  const PointSampler sampler = *PointSampler::Create(*search, &space);
  for (int n = 0; n < 27; ++n) {
    const absl::StatusOr<JobSpec> trial =
        TrialJob(job, *search, space, sampler.Propose(n));
    ASSERT_TRUE(trial.ok()) << trial.status();
    EXPECT_TRUE(SegmentJob(*trial, 20).ok());
  }
}

TEST(JobToSearchTest, NeedsSteps) {
  EXPECT_TRUE(JobToSearch(kJob, SearchWith("")).ok());
  EXPECT_THAT(JobToSearch(kJob, SearchWith("set: \"optimizer.adamw.rate=3\"")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rate")));
  std::string epochs = kJob;
  epochs.replace(epochs.find("steps: 90"), 9, "epochs: 3");
  EXPECT_THAT(
      JobToSearch(epochs, SearchWith("")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("epochs")));
}

TEST(JobToSearchTest, OnlyOneOfTwoEndsTrialsEarly) {
  const std::string job = absl::StrCat(
      kJob, "evaluation { every_steps: 9 } stop_when { patience: 2 }");
  EXPECT_TRUE(JobToSearch(job, SearchWith("")).ok());
  EXPECT_THAT(
      JobToSearch(job, SearchWith("scheduler { hyperband {} }")),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("stop_when")));
}

// Returns a search that trains a population, with these parameters.
SearchSpec PopulationWith(const std::string& parameters) {
  const SearchSpec search = *ParseSearch(
      absl::StrCat(parameters,
                   "objective { metric: \"final_loss\" goal: MINIMIZE }"
                   "scheduler { population_based { every_steps: 30 } }"),
      "search");
  EXPECT_EQ(ValidateSearch(search), absl::OkStatus());
  return search;
}

TEST(PopulationJobTest, AcceptsFieldsThatMayChangeWhileAJobIsTrained) {
  for (
      const char* const parameter :
      {R"(parameter { path: "optimizer.adamw.learning_rate"
                       number { low: 1e-4 high: 1e-1 log: true } })",
       R"(parameter { path: "optimizer.adamw.beta1"
                       number { low: 0.8 high: 0.95 } })",
       R"(parameter { path: "optimizer"
                       choice { value: "adamw { learning_rate: 0.1 }"
                                value: "adam { learning_rate: 0.1 }" } })",
       R"(parameter { path: "schedule.final_learning_rate"
                       number { low: 0 high: 1e-3 } })",
       R"(parameter { path: "batch.global" integer { low: 8 high: 32 step: 8 }
           })",
       R"(parameter { path: "clip_norm" number { low: 0.1 high: 2 } })",
       R"(parameter { path: "model.mlp.dropout" number { low: 0 high: 0.5 } })",
       R"(parameter { path: "model.label_smoothing"
                       number { low: 0 high: 0.1 } })"}) {
    EXPECT_EQ(JobToSearch(kJob, PopulationWith(parameter)).status(),
              absl::OkStatus());
  }
}

TEST(PopulationJobTest, RefusesFieldsThatMayNot) {
  const struct {
    const char* parameter;
    const char* named;
  } cases[] = {
      {R"(parameter { path: "model.mlp.hidden" choice { value: "8" value: "9" }
          })",
       "model.mlp.hidden"},
      {R"(parameter { path: "seed" integer { low: 1 high: 3 } })", "seed"},
      {R"(parameter { path: "batch.micro_batches" integer { low: 1 high: 2 } })",
       "batch.micro_batches"},
      {R"(parameter { path: "precision" choice { value: "FLOAT32"
                      value: "TF32" } })",
       "precision"},
      // The state of momentum.
      {R"(parameter { path: "optimizer"
                      choice { value: "adamw { learning_rate: 0.1 }"
                               value: "sgd { learning_rate: 0.1 }" } })",
       "optimizer=sgd"},
      {R"(parameter { path: "optimizer"
                      choice { value: "sgd { learning_rate: 0.1 }" } }
          parameter { path: "optimizer.sgd.momentum"
                      number { low: 0 high: 0.9 } })",
       "optimizer.sgd.momentum=0"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(
        JobToSearch(kJob, PopulationWith(c.parameter)),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.named)));
  }
}

TEST(SegmentJobTest, KeepsTheScheduleOfTheWholeTrial) {
  const JobSpec whole = *JobToSearch(kJob, SearchWith(""));
  const JobSpec first = *SegmentJob(whole, 30);
  EXPECT_EQ(first.steps(), 30);
  EXPECT_EQ(first.schedule().decay_steps(), 90);
  EXPECT_EQ(ValidateJob(first), absl::OkStatus());
  const JobSpec last = *SegmentJob(whole, 90);
  EXPECT_EQ(last.steps(), 90);
  // Otherwise the run of `first` would not continue with it.
  EXPECT_EQ(last.schedule().decay_steps(), 90);
}

TEST(SegmentJobTest, EndsWithACheckpoint) {
  JobSpec job = *JobToSearch(kJob, SearchWith(""));
  job.mutable_checkpoint()->set_every_steps(0);
  ASSERT_FALSE(TakesCheckpoints(job));
  EXPECT_TRUE(TakesCheckpoints(*SegmentJob(job, 30)));
}

TEST(SegmentJobTest, RefusesPartsOfTheWarmUpAndOfRounds) {
  JobSpec job = *JobToSearch(kJob, SearchWith(""));
  EXPECT_THAT(SegmentJob(job, 4), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("warmup_steps")));
  job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_local_steps()
      ->set_inner_steps(8);
  EXPECT_TRUE(SegmentJob(job, 16).ok());
  EXPECT_THAT(SegmentJob(job, 20), StatusIs(absl::StatusCode::kInvalidArgument,
                                            HasSubstr("exchange")));
}

TEST(ResultOfRunTest, ReadsMetricsByTheirPaths) {
  const nlohmann::ordered_json summary = {
      {"final_loss", 2.5},
      {"parameters", 1000},
      {"evaluation", {{"loss", 3.5}, {"accuracy", nullptr}}}};
  const SearchSpec search = SearchWith(R"(
    objective { metric: "evaluation.loss" goal: MINIMIZE }
    objective { metric: "final_loss" goal: MINIMIZE }
    constraint { metric: "parameters" max: 900 }
    constraint { metric: "final_loss" min: 2 max: 4 })");
  const TrialResult result = *ResultOfRun(search, summary);
  EXPECT_THAT(result.values, ElementsAre(3.5, 2.5));
  EXPECT_THAT(result.violations, ElementsAre(100, -0.5));
}

TEST(ResultOfRunTest, NamesTheMetricThatIsMissingOrNotFinite) {
  const nlohmann::ordered_json summary = {
      {"evaluation", {{"loss", 3.5}, {"accuracy", nullptr}}}};
  for (const char* metric : {"evaluation.auc", "evaluation", "loss.evaluation",
                             "evaluation.accuracy"}) {
    EXPECT_THAT(
        ResultOfRun(SearchWith(absl::StrCat("objective { metric: \"", metric,
                                            "\" goal: MAXIMIZE }")),
                    summary),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(metric)));
  }
}

}  // namespace
}  // namespace tributary
