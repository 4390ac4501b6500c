#include "server/progress/evaluation_progress.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/rounds.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// Two pieces; version 4, the last one, is evaluated.
class EvaluationProgressTest : public ::testing::Test {
 protected:
  static DataFacts Facts() {
    DataFacts facts;
    facts.set_evaluation_pieces(2);
    return facts;
  }
  static EvaluationReport Piece(int64_t piece) {
    EvaluationReport report;
    report.set_version(4);
    report.set_piece(piece);
    report.set_weight(2);
    return report;
  }
  static void AddMetric(const std::string& name, double sum, double count,
                        EvaluationReport* report) {
    MetricSum* const metric = report->add_metric();
    metric->set_name(name);
    metric->set_sum(sum);
    metric->set_count(count);
  }
  static void AddScores(uint32_t bin_delta, int64_t negatives,
                        int64_t positives, ScoreBins* scores) {
    scores->add_bin_delta(bin_delta);
    scores->add_negatives(negatives);
    scores->add_positives(positives);
  }
  void ExpectRefused(const EvaluationReport& report) {
    EXPECT_THAT(
        progress_.Add(report, absl::UnixEpoch()),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("metric '")));
    EXPECT_EQ(progress_.MissingPiece(4), 0);
  }

  EvaluationProgress progress_{JobSpec(), Facts(),
                               Rounds(JobSpec(), /*steps=*/4)};
};

TEST_F(EvaluationProgressTest, AddsUpTheNamedResultsOfAllPieces) {
  EvaluationReport pieces[] = {Piece(0), Piece(1)};
  AddMetric("f1", 1, 4, &pieces[0]);
  AddMetric("f1", 3, 4, &pieces[1]);
  AddMetric("never", 1, 0, &pieces[1]);
  EXPECT_FALSE(*progress_.Add(pieces[1], absl::UnixEpoch()));
  EXPECT_TRUE(*progress_.Add(pieces[0], absl::UnixEpoch()));
  const std::map<std::string, double>& metrics =
      progress_.evaluation()->metrics;
  EXPECT_EQ(metrics.at("f1"), 0.5);
  EXPECT_EQ(metrics.at("never"), 0);
  EXPECT_EQ(metrics.size(), 2);
  // A job that resumes knows them.
  JobState state;
  progress_.Save(&state);
  EvaluationProgress resumed(JobSpec(), Facts(), Rounds(JobSpec(), 4));
  resumed.Restore(4, state);
  EXPECT_EQ(resumed.evaluation()->metrics, metrics);
}

TEST_F(EvaluationProgressTest, RefusesWrongNamesOfResults) {
  for (const std::string& name :
       {std::string(), std::string("loss"), std::string("1st"),
        std::string("a b"), std::string(65, 'x')}) {
    EvaluationReport report = Piece(0);
    AddMetric(name, 1, 1, &report);
    ExpectRefused(report);
  }
}

TEST_F(EvaluationProgressTest, RefusesResultsTwiceTooManyOrWithoutACount) {
  EvaluationReport twice = Piece(0);
  AddMetric("f1", 1, 1, &twice);
  AddMetric("f1", 1, 1, &twice);
  ExpectRefused(twice);
  EvaluationReport many = Piece(0);
  for (int i = 0; i < 65; ++i) AddMetric(absl::StrCat("m", i), 1, 1, &many);
  ExpectRefused(many);
  EvaluationReport negative = Piece(0);
  AddMetric("f1", 1, -1, &negative);
  ExpectRefused(negative);
}

TEST_F(EvaluationProgressTest, ComputesTheAucOfAllPieces) {
  // The scores of positive samples are in bins 5 and 9, of negative ones in
  // bins 5 and 7.
  EvaluationReport first = Piece(0);
  AddScores(5, /*negatives=*/0, /*positives=*/1, first.mutable_scores());
  AddScores(4, /*negatives=*/0, /*positives=*/1, first.mutable_scores());
  EvaluationReport second = Piece(1);
  AddScores(5, /*negatives=*/1, /*positives=*/0, second.mutable_scores());
  AddScores(2, /*negatives=*/1, /*positives=*/0, second.mutable_scores());
  EXPECT_FALSE(*progress_.Add(second, absl::UnixEpoch()));
  EXPECT_FALSE(*progress_.Add(second, absl::UnixEpoch()));
  EXPECT_TRUE(*progress_.Add(first, absl::UnixEpoch()));
  EXPECT_EQ(progress_.evaluation()->metrics.at("auc"), 2.5 / 4);
}

TEST_F(EvaluationProgressTest, HasNoAucWithoutScores) {
  EXPECT_FALSE(*progress_.Add(Piece(0), absl::UnixEpoch()));
  EXPECT_TRUE(*progress_.Add(Piece(1), absl::UnixEpoch()));
  EXPECT_EQ(progress_.evaluation()->metrics.count("auc"), 0);
}

TEST_F(EvaluationProgressTest, RefusesWrongScores) {
  std::vector<EvaluationReport> wrong(6, Piece(0));
  // Too few, too many, negative, twice the same bin, a bin that does not exist,
  // lists of different lengths.
  AddScores(5, 1, 0, wrong[0].mutable_scores());
  AddScores(5, 1, 2, wrong[1].mutable_scores());
  AddScores(5, 2, -1, wrong[2].mutable_scores());
  AddScores(5, 1, 0, wrong[3].mutable_scores());
  AddScores(0, 1, 0, wrong[3].mutable_scores());
  AddScores(1, 1, 0, wrong[4].mutable_scores());
  AddScores((1 << 24) - 1, 1, 0, wrong[4].mutable_scores());
  AddScores(5, 1, 1, wrong[5].mutable_scores());
  wrong[5].mutable_scores()->add_bin_delta(1);
  for (const EvaluationReport& report : wrong) {
    EXPECT_THAT(
        progress_.Add(report, absl::UnixEpoch()),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("scores")));
  }
}

}  // namespace
}  // namespace tributary
