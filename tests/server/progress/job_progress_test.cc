#include "server/progress/job_progress.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobSpec Job(const std::vector<std::string>& fields) {
  JobSpec job;
  for (const std::string& field : fields) {
    EXPECT_EQ(SetField(&job, field), absl::OkStatus());
  }
  return job;
}

// Three chunks, eight steps of four samples each, and two pieces of evaluation
// after the fourth and the last step. A metrics line covers two steps.
class JobProgressTest : public ::testing::Test {
 protected:
  static constexpr int kChunks = 3;
  static constexpr int64_t kSteps = 8;
  static constexpr int64_t kSamples = 4;

  JobProgressTest() {
    facts_.set_steps(kSteps);
    facts_.set_steps_per_epoch(4);
    facts_.set_evaluation_pieces(2);
    facts_.set_unit("rows");
  }

  JobProgress Make(int servers, const std::vector<std::string>& fields = {}) {
    JobSpec job = Job({"optimizer.sgd.learning_rate=0.5",
                       "evaluation.every_steps=4", "output.log_every_steps=2"});
    job.MergeFrom(Job(fields));
    return JobProgress(job, facts_, kChunks, servers);
  }
  static absl::Time At(double seconds) {
    return absl::UnixEpoch() + absl::Seconds(1000 + seconds);
  }

  // The report of the only server: a loss of `loss` per sample, and a mean
  // gradient of norm `norm`, spread over all chunks.
  static StepSums Sums(int64_t step, double loss = 2, double norm = 3) {
    StepSums sums;
    sums.set_step(step);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      sums.add_sum_of_squares(norm * norm * kSamples * kSamples / kChunks);
    }
    sums.set_weight(kSamples);
    sums.set_loss_sum(loss * kSamples);
    return sums;
  }
  static StepSums Squares(int64_t step, const std::vector<double>& squares) {
    StepSums sums;
    sums.set_step(step);
    for (const double square : squares) sums.add_sum_of_squares(square);
    sums.set_weight(kSamples);
    return sums;
  }
  // Completes a step of a job with one server.
  static void Step(JobProgress* progress, const StepSums& sums, double at) {
    const auto norm = progress->AddSums(/*shard=*/0, sums, At(at));
    ASSERT_TRUE(norm.ok()) << norm.status();
    ASSERT_TRUE(norm->has_value());
    EXPECT_EQ((*norm)->step(), sums.step());
  }
  static EvaluationReport Piece(int64_t version, int64_t piece,
                                double loss_sum = 6, int64_t correct = 1,
                                int64_t sample_count = 2) {
    EvaluationReport report;
    report.set_version(version);
    report.set_piece(piece);
    report.set_loss_sum(loss_sum);
    report.set_correct(correct);
    report.set_weight(sample_count);
    return report;
  }
  static void Evaluate(JobProgress* progress, int64_t version, double at) {
    EXPECT_FALSE(*progress->AddEvaluation(Piece(version, 0), At(at)));
    EXPECT_TRUE(*progress->AddEvaluation(Piece(version, 1), At(at)));
  }
  static std::vector<nlohmann::json> Lines(JobProgress* progress) {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : progress->TakeMetrics()) {
      lines.push_back(ParseJson(line));
    }
    return lines;
  }
  static StatusReply StatusOf(const JobProgress& progress) {
    StatusReply reply;
    progress.FillStatus(&reply);
    return reply;
  }

  DataFacts facts_;
};

TEST_F(JobProgressTest, ReturnsTheNormOnceTheLastServerHasReported) {
  for (const bool swapped : {false, true}) {
    JobProgress progress = Make(/*servers=*/2);
    progress.Begin(At(0));
    // Server 0 holds the chunks 0 and 2. 9 + 11 + 16 is the square of 6.
    StepSums first = Squares(0, {9, 16});
    first.set_loss_sum(10);
    const StepSums second = Squares(0, {11});
    const auto none = swapped ? progress.AddSums(1, second, At(1))
                              : progress.AddSums(0, first, At(1));
    ASSERT_TRUE(none.ok()) << none.status();
    EXPECT_FALSE(none->has_value());
    EXPECT_EQ(progress.completed_steps(), 0);
    const auto norm = swapped ? progress.AddSums(0, first, At(1))
                              : progress.AddSums(1, second, At(1));
    ASSERT_TRUE(norm.ok() && norm->has_value()) << norm.status();
    EXPECT_EQ((*norm)->step(), 0);
    EXPECT_EQ((*norm)->norm(), 6.0 / kSamples);
    EXPECT_EQ(progress.completed_steps(), 1);
    EXPECT_EQ(progress.Totals().loss, 10.0 / kSamples);
  }
}

TEST_F(JobProgressTest, AddsSquaresInTheOrderOfChunks) {
  // In this order each 1 is lost; the sums of single servers would keep them.
  const std::vector<double> squares = {1e16, 1, 1, 1, 1, 1, 1};
  for (const int servers : {1, 2, 3, 5}) {
    JobProgress progress(Job({}), facts_, static_cast<int>(squares.size()),
                         servers);
    std::optional<GradientNorm> norm;
    for (int shard = servers - 1; shard >= 0; --shard) {
      std::vector<double> own;
      for (size_t chunk = shard; chunk < squares.size(); chunk += servers) {
        own.push_back(squares[chunk]);
      }
      norm = *progress.AddSums(shard, Squares(0, own), At(0));
    }
    ASSERT_TRUE(norm.has_value());
    EXPECT_EQ(norm->norm(), 1e8 / kSamples) << servers << " servers";
  }
}

TEST_F(JobProgressTest, CompletesRoundsInAnyOrder) {
  JobProgress progress = Make(/*servers=*/2);
  progress.Begin(At(0));
  EXPECT_FALSE(progress.AddSums(0, Squares(0, {1, 1}), At(1))->has_value());
  EXPECT_FALSE(progress.AddSums(0, Squares(1, {2, 2}), At(1))->has_value());
  const auto second = progress.AddSums(1, Squares(1, {5}), At(2))->value();
  EXPECT_EQ(second.step(), 1);
  EXPECT_EQ(second.norm(), 3.0 / kSamples);
  EXPECT_EQ(progress.completed_steps(), 1);
  // Step 1 is complete and cannot be reported again; step 0 still can.
  EXPECT_THAT(progress.AddSums(0, Squares(1, {2, 2}), At(2)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("server 0 reports step 1 ")));
  const auto first = progress.AddSums(1, Squares(0, {2}), At(3))->value();
  EXPECT_EQ(first.step(), 0);
  EXPECT_EQ(first.norm(), 2.0 / kSamples);
  EXPECT_EQ(progress.completed_steps(), 2);
}

TEST_F(JobProgressTest, RefusesReportsThatDoNotFitAndKeepsTheRound) {
  JobProgress progress = Make(/*servers=*/2);
  progress.Begin(At(0));
  const auto expect_refused = [&](int shard, const StepSums& sums,
                                  const std::string& words) {
    EXPECT_THAT(progress.AddSums(shard, sums, At(0)),
                StatusIs(absl::StatusCode::kInvalidArgument, words));
  };
  EXPECT_FALSE(progress.AddSums(0, Squares(0, {1, 1}), At(0))->has_value());
  expect_refused(0, Squares(0, {9, 9}), "server 0 reports step 0 twice");
  expect_refused(1, Squares(0, {}),
                 "server 1 reports step 0 with a wrong number of chunks");
  expect_refused(1, Squares(0, {2, 2}),
                 "server 1 reports step 0 with a wrong number of chunks");
  expect_refused(0, Squares(kSteps, {1, 1}),
                 "server 0 reports step 8 while the job is at step 0");
  const auto norm = *progress.AddSums(1, Squares(0, {2}), At(0));
  ASSERT_TRUE(norm.has_value());
  EXPECT_EQ(norm->norm(), 2.0 / kSamples);
  expect_refused(1, Squares(0, {2}),
                 "server 1 reports step 0 while the job is at step 1");
}

TEST_F(JobProgressTest, WaitsForNoServerWithoutChunks) {
  JobProgress progress = Make(/*servers=*/5);
  progress.Begin(At(0));
  EXPECT_FALSE(progress.AddSums(0, Squares(0, {1}), At(0))->has_value());
  EXPECT_FALSE(progress.AddSums(1, Squares(0, {1}), At(0))->has_value());
  EXPECT_TRUE(progress.AddSums(2, Squares(0, {1}), At(0))->has_value());
}

TEST_F(JobProgressTest, SkippedStepsChangeNeitherLossNorNorm) {
  JobProgress progress = Make(/*servers=*/2, {"on_nonfinite=SKIP"});
  progress.Begin(At(0));
  const auto step = [&](int64_t number, double loss, bool finite) {
    StepSums first = Squares(number, {9, 16});
    StepSums second = Squares(number, {11});
    first.set_loss_sum(finite ? loss * kSamples : std::nan(""));
    if (!finite) {
      for (const int chunk : {2, 0}) {
        auto* place = first.add_nonfinite();
        place->set_chunk(chunk);
        place->set_element(10 + chunk);
        place->set_contributor(7);
      }
      second.add_nonfinite()->set_chunk(1);
    }
    EXPECT_TRUE(progress.AddSums(0, first, At(1)).ok());
    EXPECT_TRUE((*progress.AddSums(1, second, At(1))).has_value());
  };
  step(0, 2, true);
  EXPECT_FALSE(progress.TakeNonfinite().has_value());
  step(1, 0, false);
  // Backward begins with the last chunk.
  const auto place = progress.TakeNonfinite();
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->step, 1);
  EXPECT_EQ(place->place->chunk(), 2);
  EXPECT_EQ(place->place->element(), 12);
  EXPECT_EQ(place->place->contributor(), 7);
  EXPECT_FALSE(progress.TakeNonfinite().has_value());
  EXPECT_EQ(progress.Totals().skipped_steps, 1);
  EXPECT_EQ(progress.Totals().loss, 2);
  const std::vector<nlohmann::json> lines = Lines(&progress);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["loss"], 2);
  EXPECT_EQ(lines[0]["gradient_norm"], 6.0 / kSamples);
  step(2, 0, false);
  step(3, 0, false);
  EXPECT_EQ(Lines(&progress).at(0)["loss"], 2);
}

TEST_F(JobProgressTest, ANonfiniteStepIsNotSkippedUnlessTheJobSaysSo) {
  JobProgress progress = Make(/*servers=*/1);
  StepSums sums = Sums(0);
  sums.add_nonfinite()->set_chunk(1);
  Step(&progress, sums, 1);
  EXPECT_TRUE(progress.TakeNonfinite().has_value());
  EXPECT_EQ(progress.Totals().skipped_steps, 0);
}

TEST_F(JobProgressTest, WritesALineOfMetricsPerWindowAndAtTheEnd) {
  facts_.set_steps(3);
  facts_.set_evaluation_pieces(0);
  JobProgress progress = Make(/*servers=*/1, {"schedule.decay=LINEAR"});
  progress.Begin(At(0));
  Step(&progress, Sums(0, /*loss=*/2, /*norm=*/3), 1);
  EXPECT_TRUE(Lines(&progress).empty());
  StepSums large = Sums(1, /*loss=*/4, /*norm=*/1);
  large.set_weight(3 * kSamples);
  large.set_loss_sum(4 * 3 * kSamples);
  Step(&progress, large, 4);
  std::vector<nlohmann::json> lines = Lines(&progress);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["step"], 2);
  EXPECT_EQ(lines[0]["epoch"], 0.5);
  EXPECT_EQ(lines[0]["loss"], 3.5);  // By samples, not by steps.
  EXPECT_NEAR(lines[0]["gradient_norm"], 1.0 / 3, 1e-12);
  EXPECT_NEAR(lines[0]["learning_rate"], 0.5 * 2 / 3, 1e-12);  // Step 1 of 3.
  EXPECT_EQ(lines[0]["samples"], 4 * kSamples);
  EXPECT_EQ(lines[0]["samples_per_second"], 4);
  EXPECT_EQ(lines[0]["step_seconds"], 2);
  EXPECT_EQ(lines[0]["seconds"], 4);
  // The next window begins with the end of the last one.
  Step(&progress, Sums(2, /*loss=*/1), 4.5);
  lines = Lines(&progress);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["step"], 3);
  EXPECT_EQ(lines[0]["loss"], 1);
  EXPECT_EQ(lines[0]["step_seconds"], 0.5);
  EXPECT_TRUE(progress.finished());
}

TEST_F(JobProgressTest, ALossThatNobodyReportsIsAbsent) {
  const auto unknown = [](int64_t step) {
    StepSums sums = Sums(step);
    sums.clear_loss_sum();
    return sums;
  };
  JobProgress progress = Make(/*servers=*/1);
  progress.Begin(At(0));
  Step(&progress, unknown(0), 1);
  Step(&progress, unknown(1), 2);
  EXPECT_FALSE(Lines(&progress).at(0).contains("loss"));
  EXPECT_FALSE(StatusOf(progress).has_loss());
  EXPECT_EQ(progress.Totals().loss, std::nullopt);
  EXPECT_FALSE(progress.Save().has_loss());
  // The mean is that of the steps whose loss is known.
  Step(&progress, unknown(2), 3);
  Step(&progress, Sums(3, /*loss=*/5), 4);
  const std::vector<nlohmann::json> lines = Lines(&progress);
  EXPECT_EQ(lines.at(0)["loss"], 5);
  EXPECT_EQ(lines.at(0)["samples"], 2 * kSamples);
  EXPECT_EQ(StatusOf(progress).loss(), 5);
  Evaluate(&progress, 4, 5);
  Step(&progress, unknown(4), 6);
  Step(&progress, unknown(5), 7);
  EXPECT_FALSE(StatusOf(progress).has_loss());
  EXPECT_EQ(progress.Totals().loss, 5);
  JobProgress resumed = Make(/*servers=*/1);
  resumed.Resume(6, progress.Save());
  EXPECT_EQ(resumed.Totals().loss, 5);
}

TEST_F(JobProgressTest, EvaluatesVersionsThatAreDueFromAllPieces) {
  JobProgress progress = Make(/*servers=*/1);
  progress.Begin(At(0));
  std::vector<int64_t> due;
  for (int64_t version = 0; version <= kSteps; ++version) {
    if (progress.evaluations().Due(version)) due.push_back(version);
  }
  EXPECT_THAT(due, ElementsAre(4, 8));
  EXPECT_EQ(progress.evaluations().Next(), 4);
  EXPECT_EQ(StatusOf(progress).evaluation_version(), -1);

  EXPECT_FALSE(*progress.AddEvaluation(Piece(4, 1, 6, 1, 2), At(5)));
  // A worker that took over repeats a piece: it counts once.
  EXPECT_FALSE(*progress.AddEvaluation(Piece(4, 1, 6, 1, 2), At(5)));
  EXPECT_FALSE(progress.evaluations().evaluation().has_value());
  EXPECT_TRUE(*progress.AddEvaluation(Piece(4, 0, 4, 2, 3), At(6)));
  ASSERT_TRUE(progress.evaluations().evaluation().has_value());
  EXPECT_EQ(progress.evaluations().evaluation()->step, 4);
  EXPECT_EQ(progress.evaluations().evaluation()->loss, 2);
  EXPECT_EQ(progress.evaluations().evaluation()->accuracy, 0.6);
  EXPECT_EQ(progress.evaluations().evaluated_version(), 4);
  EXPECT_EQ(progress.evaluations().Next(), 8);
  const std::vector<nlohmann::json> lines = Lines(&progress);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0], ParseJson(
                          R"({"step": 4, "evaluation_loss": 2.0,
                              "evaluation_accuracy": 0.6, "seconds": 6.0})"));
  const StatusReply status = StatusOf(progress);
  EXPECT_EQ(status.evaluation_version(), 4);
  EXPECT_EQ(status.evaluation_loss(), 2);
  EXPECT_EQ(status.evaluation_accuracy(), 0.6);
  // Late reports change nothing.
  EXPECT_FALSE(*progress.AddEvaluation(Piece(4, 0, 100), At(7)));
  EXPECT_FALSE(*progress.AddEvaluation(Piece(4, 1, 100), At(7)));
  EXPECT_EQ(progress.evaluations().evaluation()->loss, 2);
}

TEST_F(JobProgressTest, ShowsTheNamedResultsOfTheEvaluation) {
  JobProgress progress = Make(/*servers=*/1);
  EvaluationReport piece = Piece(4, 0);
  MetricSum* const metric = piece.add_metric();
  metric->set_name("f1");
  metric->set_sum(3);
  metric->set_count(6);
  EXPECT_FALSE(*progress.AddEvaluation(piece, At(5)));
  EXPECT_TRUE(*progress.AddEvaluation(Piece(4, 1), At(6)));
  const std::vector<nlohmann::json> lines = Lines(&progress);
  ASSERT_EQ(lines.size(), 1);
  EXPECT_EQ(lines[0]["evaluation_f1"], 0.5);
  EXPECT_EQ(StatusOf(progress).evaluation_metric().at("f1"), 0.5);
}

TEST_F(JobProgressTest, RefusesEvaluationsThatAreNotDueAndMixesNoVersions) {
  JobProgress progress = Make(/*servers=*/1);
  const auto expect_refused = [&](int64_t version, int64_t piece) {
    EXPECT_THAT(progress.AddEvaluation(Piece(version, piece), At(0)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("no evaluation of version ", version,
                                      ", piece ", piece, " is due")));
  };
  expect_refused(3, 0);
  expect_refused(4, 2);
  expect_refused(4, -1);
  // Pieces of two versions do not complete each other.
  EXPECT_FALSE(*progress.AddEvaluation(Piece(4, 0), At(0)));
  EXPECT_FALSE(*progress.AddEvaluation(Piece(8, 1), At(0)));
  EXPECT_EQ(progress.evaluations().evaluated_version(), 0);
  EXPECT_TRUE(*progress.AddEvaluation(Piece(8, 0), At(0)));
  EXPECT_EQ(progress.evaluations().evaluated_version(), 8);
}

TEST_F(JobProgressTest, FinishesWithTheEvaluationOfTheLastStep) {
  JobProgress progress = Make(/*servers=*/1);
  progress.Begin(At(0));
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_FALSE(progress.finished());
    Step(&progress, Sums(step), 1);
  }
  EXPECT_EQ(progress.completed_steps(), progress.evaluations().final_version());
  EXPECT_FALSE(progress.finished());
  Evaluate(&progress, kSteps, 2);
  EXPECT_TRUE(progress.finished());
}

TEST_F(JobProgressTest, SpeedLeavesOutEvaluationsAndWarmUp) {
  JobProgress progress = Make(/*servers=*/1);
  progress.Begin(At(0));
  // Six seconds of evaluation after four steps of a second each.
  for (int step = 0; step < 4; ++step) Step(&progress, Sums(step), step + 1);
  Evaluate(&progress, 4, 10);
  Step(&progress, Sums(4), 12);  // Next to the evaluation: not measured.
  Step(&progress, Sums(5), 12.5);
  EXPECT_EQ(progress.Totals().samples_per_second, 6 * kSamples / 6.5);
  EXPECT_EQ(progress.Totals().seconds, 12.5);
  EXPECT_THAT(progress.step_times().milliseconds, ElementsAre(1000, 500));
  EXPECT_EQ(Lines(&progress).back()["step_seconds"], 2.5 / 2);
  const StatusReply status = StatusOf(progress);
  EXPECT_EQ(status.step(), 6);
  EXPECT_EQ(status.steps(), kSteps);
  EXPECT_EQ(status.epoch(), 1.5);
  EXPECT_EQ(status.unit(), "rows");
  EXPECT_NEAR(status.seconds_left(), 6.5 * 2 / 6, 1e-12);
  EXPECT_EQ(status.step_milliseconds(), 1250);
}

TEST_F(JobProgressTest, CountsTheStepsInRoundsOfLocalSteps) {
  JobProgress progress =
      Make(/*servers=*/1,
           {"exchange.parameter_server.consistency.local_steps.inner_steps=3"});
  EXPECT_EQ(progress.evaluations().final_version(), 3);
  progress.Begin(At(0));
  Step(&progress, Sums(0), 3);
  EXPECT_EQ(progress.completed_steps(), 3);
  std::vector<nlohmann::json> lines = Lines(&progress);
  EXPECT_EQ(lines.at(0)["step"], 3);
  EXPECT_EQ(lines[0]["step_seconds"], 1);
  EXPECT_EQ(progress.Stalled(At(3 + 8.5)), absl::ZeroDuration());
  EXPECT_TRUE(progress.evaluations().Due(2));  // Every four steps: two rounds.
  Step(&progress, Sums(1), 9);
  EXPECT_EQ(Lines(&progress).at(0)["step_seconds"], 2);
  Evaluate(&progress, 2, 10);
  EXPECT_EQ(progress.evaluations().evaluation()->step, 6);
  Step(&progress, Sums(2), 14);  // The last round has two steps.
  EXPECT_EQ(progress.completed_steps(), kSteps);
  EXPECT_EQ(Lines(&progress).back()["step_seconds"], 2);
}

TEST_F(JobProgressTest, ContinuesFromASavedState) {
  JobProgress before = Make(/*servers=*/1, {"on_nonfinite=SKIP"});
  before.Begin(At(0));
  for (int step = 0; step < 4; ++step) Step(&before, Sums(step), step + 1);
  Evaluate(&before, 4, 10);
  StepSums skipped = Sums(4, /*loss=*/9);
  skipped.add_nonfinite();
  Step(&before, skipped, 11);
  const JobState state = before.Save();
  EXPECT_EQ(state.samples(), 5 * kSamples);
  EXPECT_EQ(state.seconds(), 5);
  EXPECT_EQ(state.loss(), 2);
  EXPECT_EQ(state.skipped_steps(), 1);

  JobProgress after = Make(/*servers=*/1, {"on_nonfinite=SKIP"});
  after.Resume(5, state);
  after.Begin(At(500));
  EXPECT_EQ(after.Save().SerializeAsString(), state.SerializeAsString());
  EXPECT_EQ(after.completed_steps(), 5);
  EXPECT_EQ(after.Totals().loss, 2);
  EXPECT_EQ(StatusOf(after).skipped_steps(), 1);
  EXPECT_EQ(after.evaluations().evaluated_version(), 4);
  EXPECT_EQ(after.evaluations().evaluation()->loss,
            before.evaluations().evaluation()->loss);
  EXPECT_EQ(after.evaluations().evaluation()->step, 4);
  EXPECT_THAT(after.AddSums(0, Sums(4), At(500)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("while the job is at step 5")));
  for (int step = 5; step < kSteps; ++step) {
    Step(&after, Sums(step), 497 + step);
  }
  EXPECT_TRUE(after.step_times().milliseconds.empty());
  EXPECT_EQ(after.Totals().samples_per_second, 8.0 * kSamples / (5 + 4));
  EXPECT_EQ(after.Totals().seconds, 9);
  Evaluate(&after, kSteps, 505);
  EXPECT_TRUE(after.finished());
}

// Worker 12 takes half a second longer than worker 11, in forward.
TEST_F(JobProgressTest, NamesTheStragglerInMetricsAndStatus) {
  JobProgress progress = Make(/*servers=*/1);
  progress.Begin(At(0));
  for (const auto& [worker, rank] : {std::pair(11, 0), std::pair(12, 1)}) {
    progress.breakdown()->Introduce(worker, rank);
    ProcessStatistics counters;
    counters.set_steps(2);
    counters.set_leaves(4);
    counters.set_forward_seconds(rank == 0 ? 0.25 : 1.25);
    counters.set_backward_seconds(0.5);
    counters.set_data_seconds(0.25);
    counters.set_exchange_seconds(rank == 0 ? 1 : 0);
    progress.breakdown()->AddCounters(worker, counters);
  }
  for (int step = 0; step < 2; ++step) {
    StepSums sums = Sums(step);
    for (const auto& [worker, late] : {std::pair(11, 0.0f), {12, 0.5f}}) {
      sums.add_contributor(worker);
      sums.add_contributor_seconds(late);
    }
    Step(&progress, sums, step + 1);
  }
  const nlohmann::json line = Lines(&progress).at(0);
  EXPECT_EQ(line["waiting"], ParseJson(
                                 R"({"rank": 1, "ms": 500.0,
                                     "phase": "forward"})"));
  ASSERT_EQ(line["workers"].size(), 2);
  EXPECT_EQ(line["workers"][0],
            ParseJson(
                R"({"rank": 0, "leaves": 2.0, "forward_ms": 125.0,
                    "backward_ms": 250.0, "data_ms": 125.0,
                    "exchange_ms": 500.0, "waiting_ms": 500.0})"));
  EXPECT_EQ(line["workers"][1]["waiting_ms"], 0);
  StatusReply status = StatusOf(progress);
  EXPECT_EQ(status.waiting_rank(), 1);
  EXPECT_EQ(status.waiting_milliseconds(), 500);
  EXPECT_EQ(status.waiting_phase(), "forward");
  EXPECT_EQ(status.compute_share(), 2.5 / 4);
  EXPECT_EQ(status.exchange_share(), 1.0 / 4);
  // A window in which all arrive together has no straggler.
  Step(&progress, Sums(2), 3);
  Step(&progress, Sums(3), 4);
  status = StatusOf(progress);
  EXPECT_EQ(status.waiting_milliseconds(), 0);
  EXPECT_EQ(status.waiting_phase(), "");
}

TEST_F(JobProgressTest, StallsAfterSeveralTimesTheUsualStep) {
  JobProgress progress = Make(/*servers=*/1);
  progress.Begin(At(0));
  // Before a step has been measured, two seconds are unusual.
  EXPECT_EQ(progress.Stalled(At(1.5)), absl::ZeroDuration());
  EXPECT_EQ(progress.Stalled(At(2.5)), absl::Seconds(2.5));
  Step(&progress, Sums(0), 2);
  Step(&progress, Sums(1), 4);
  EXPECT_EQ(progress.Stalled(At(9.5)), absl::ZeroDuration());
  EXPECT_EQ(progress.Stalled(At(10.5)), absl::Seconds(6.5));
}

}  // namespace
}  // namespace tributary
