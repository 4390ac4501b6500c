#include "deploy/launch/job/run_report.h"

#include <string>

#include "common/base/json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

TEST(RunReportTest, SaysWhatTheSummaryKnows) {
  const std::string report = FormatRunReport(
      ParseOrderedJson(R"({"steps": 600, "final_loss": 1.25, "seconds": 61.2,
          "samples_per_second": 12345, "unit": "tokens",
          "evaluation": {"step": 600, "loss": 1.5, "accuracy": 0.5,
                         "auc": 0.75}, "weights_sha256": "7ade"})"),
      "runs/x");
  EXPECT_EQ(report,
            "final loss   1.2500\n"
            "evaluation   loss 1.5000, accuracy 50.00 %, AUC 0.7500\n"
            "time         1:01 for 600 steps, 12.3k tokens/s\n"
            "model        runs/x/final/model.safetensors\n"
            "weights      sha256 7ade\n");
}

TEST(RunReportTest, ShowsPerplexity) {
  const std::string report = FormatRunReport(
      ParseOrderedJson(
          R"({"evaluation": {"loss": 1.0, "perplexity": 2.71828}})"),
      "d");
  EXPECT_EQ(report,
            "evaluation   loss 1.0000, perplexity 2.718\n"
            "model        d/final/model.safetensors\n");
}

TEST(FinalStatusTest, CatchesUpWithTheSummary) {
  StatusReply newest;
  newest.set_phase(StatusReply::TRAINING);
  newest.set_step(595);
  newest.set_steps(600);
  newest.set_loss(1.5);
  newest.set_learning_rate(1e-3);
  newest.set_samples_per_second(100);
  newest.set_evaluation_loss(2.5);
  const StatusReply end = FinalStatus(
      ParseOrderedJson(
          R"({"steps": 600, "final_loss": 1.25, "evaluation": {"loss": 1.5}})"),
      newest);
  EXPECT_EQ(end.phase(), StatusReply::DONE);
  EXPECT_EQ(end.step(), 600);
  EXPECT_EQ(end.steps(), 600);
  EXPECT_EQ(end.loss(), 1.25);
  EXPECT_EQ(end.learning_rate(), 0) << "that of step 595";
  EXPECT_EQ(end.samples_per_second(), 100);
  EXPECT_EQ(end.evaluation_loss(), 1.5);
}

TEST(RunReportTest, SaysThatCheckpointsCouldNotBeSaved) {
  const std::string report = FormatRunReport(
      ParseOrderedJson(R"({"final_loss": 1, "checkpoint_failures": 3,
          "checkpoint_failure": "No space left on device"})"),
      "d");
  EXPECT_NE(report.find("checkpoints  3 checkpoints could not be saved: No "
                        "space left on device\n"),
            std::string::npos)
      << report;
}

TEST(FinalStatusTest, KnowsTheEndOfARunThatWasNeverAsked) {
  const StatusReply end = FinalStatus(
      ParseOrderedJson(R"({"steps": 20, "final_loss": 2.5})"), StatusReply());
  EXPECT_EQ(end.step(), 20);
  EXPECT_EQ(end.steps(), 20);
  EXPECT_EQ(end.loss(), 2.5);
}

}  // namespace
}  // namespace tributary
