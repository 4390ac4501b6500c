#include "server/progress/evaluation_progress.h"

#include <map>
#include <string>

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

}  // namespace
}  // namespace tributary
