#include "deploy/launch/job/progress_display.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/launch/job/output_fixture.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StatusReply Training() {
  StatusReply status;
  status.set_phase(StatusReply::TRAINING);
  status.set_step(1200);
  status.set_steps(6000);
  status.set_loss(1.2345);
  status.set_learning_rate(3e-4);
  status.set_gradient_norm(1.1);
  status.set_samples_per_second(12345);
  status.set_unit("tokens");
  status.set_step_milliseconds(8.1);
  status.set_compute_share(0.82);
  status.set_exchange_share(0.11);
  status.set_seconds_left(38);
  status.set_evaluation_version(-1);
  status.set_workers(2);
  status.set_servers(1);
  return status;
}

TEST(FormatTest, CountsAreShort) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(7), "7");
  EXPECT_EQ(FormatCount(7.25), "7.2");
  EXPECT_EQ(FormatCount(950), "950");
  EXPECT_EQ(FormatCount(999.7), "1.0k");
  EXPECT_EQ(FormatCount(12345), "12.3k");
  EXPECT_EQ(FormatCount(123456), "123k");
  EXPECT_EQ(FormatCount(4.5e6), "4.5M");
  EXPECT_EQ(FormatCount(std::numeric_limits<double>::infinity()), "?");
}

TEST(FormatTest, SecondsAreClockTimes) {
  EXPECT_EQ(FormatSeconds(0.4), "0:00");
  EXPECT_EQ(FormatSeconds(38), "0:38");
  EXPECT_EQ(FormatSeconds(59.6), "1:00");
  EXPECT_EQ(FormatSeconds(725), "12:05");
  EXPECT_EQ(FormatSeconds(3723), "1:02:03");
  EXPECT_EQ(FormatSeconds(std::numeric_limits<double>::quiet_NaN()), "?");
  EXPECT_EQ(FormatSeconds(-1), "?");
}

TEST(FormatProgressTest, WideLineHasEverything) {
  EXPECT_EQ(FormatProgress(Training(), 0),
            "step 1200/6000 20% | loss 1.2345 | lr 3.0e-04 | norm 1.10 | "
            "12.3k tokens/s | 8.1 ms (compute 82% exchange 11%) | ETA 0:38");
}

TEST(FormatProgressTest, NarrowLineKeepsStepLossAndTimeLeft) {
  EXPECT_EQ(FormatProgress(Training(), 100),
            "step 1200/6000 20% | loss 1.2345 | lr 3.0e-04 | norm 1.10 | "
            "12.3k tokens/s | 8.1 ms | ETA 0:38");
  EXPECT_EQ(FormatProgress(Training(), 79),
            "step 1200/6000 20% | loss 1.2345 | 12.3k tokens/s | 8.1 ms | ETA "
            "0:38");
  EXPECT_EQ(FormatProgress(Training(), 50),
            "step 1200/6000 20% | loss 1.2345 | ETA 0:38");
  EXPECT_EQ(FormatProgress(Training(), 34), "step 1200/6000 20% | loss 1.2345");
}

TEST(FormatProgressTest, NeverExceedsTheWidth) {
  StatusReply status = Training();
  status.set_evaluation_version(1000);
  status.set_evaluation_loss(1.5);
  for (int width = 1; width < 200; ++width) {
    EXPECT_LE(FormatProgress(status, width).size(), static_cast<size_t>(width));
  }
}

TEST(FormatProgressTest, ShowsTheNewestEvaluation) {
  StatusReply status = Training();
  status.set_evaluation_version(1000);
  status.set_evaluation_loss(1.5);
  status.set_evaluation_accuracy(0.712);
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr(" | eval 1.5000 | "));
  status.set_unit("images");
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr(" | acc 71.20% | "));
  (*status.mutable_evaluation_metric())["auc"] = 0.80255;
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr(" | auc 0.8025 | "));
}

TEST(FormatProgressTest, NamesTheStragglerWhenItCostsMoreThanAFewPercent) {
  StatusReply status = Training();
  status.set_step_milliseconds(100);
  status.set_waiting_rank(3);
  status.set_waiting_milliseconds(31);
  status.set_waiting_phase("backward");
  EXPECT_THAT(
      FormatProgress(status, 0),
      HasSubstr(" | 100.0 ms (compute 82% exchange 11%) | waiting 31 ms "
                "for worker 3: backward | ETA 0:38"));
  EXPECT_EQ(FormatProgress(status, 79),
            "step 1200/6000 20% | loss 1.2345 | waiting 31 ms for worker 3: "
            "backward");
  status.set_waiting_milliseconds(5.25);
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr(" waiting 5.2 ms for "));
  status.set_waiting_milliseconds(42000);
  status.set_waiting_phase("");
  EXPECT_THAT(FormatProgress(status, 0),
              HasSubstr(" waiting 42 s for worker 3 |"));
  status.set_waiting_milliseconds(4.9);
  EXPECT_THAT(FormatProgress(status, 0), Not(HasSubstr("waiting")));
  const auto json = ParseJson(FormatProgressJson(status, absl::UnixEpoch()));
  EXPECT_EQ(json["waiting"]["rank"], 3);
  EXPECT_EQ(json["waiting"]["ms"], 4.9);
}

TEST(FormatProgressTest, SaysWhatIsWaitedFor) {
  StatusReply status;
  EXPECT_EQ(FormatProgress(status, 0), "starting");
  status.set_phase(StatusReply::WAITING);
  status.set_servers(1);
  EXPECT_EQ(FormatProgress(status, 0), "waiting: 1 server, 0 workers joined");
}

TEST(FormatProgressTest, SaysWhenItEvaluatesAndFinishes) {
  StatusReply status = Training();
  status.set_phase(StatusReply::EVALUATING);
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr("| evaluating |"));
  EXPECT_THAT(FormatProgress(status, 0), Not(HasSubstr("ETA")));
  status.set_phase(StatusReply::FINISHING);
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr("| writing the model |"));
}

TEST(FormatProgressTest, LeavesOutWhatIsNotKnownYet) {
  StatusReply status;
  status.set_phase(StatusReply::TRAINING);
  status.set_steps(100);
  EXPECT_EQ(FormatProgress(status, 0), "step 0/100 0%");
}

// It showed "compute 0% exchange 0%".
TEST(FormatProgressTest, LeavesOutSharesThatNoWorkerHasReported) {
  StatusReply status = Training();
  status.clear_compute_share();
  status.clear_exchange_share();
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr(" | 8.1 ms | ETA 0:38"));
}

TEST(FormatProgressTest, ShowsDivergence) {
  StatusReply status = Training();
  status.set_loss(std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(FormatProgress(status, 0), HasSubstr("loss nan"));
}

TEST(FormatProgressJsonTest, IsOneObject) {
  const auto json =
      ParseJson(FormatProgressJson(Training(), absl::UnixEpoch()));
  EXPECT_EQ(json["ts"], "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(json["step"], 1200);
  EXPECT_EQ(json["phase"], "TRAINING");
  EXPECT_EQ(json["loss"], 1.2345);
}

TEST(ProgressStyleTest, AnimatesOnlyAbleTerminals) {
  const auto term = [](const std::string& value) {
    return [value](const std::string& name) -> absl::optional<std::string> {
      if (name == "TERM" && !value.empty()) return value;
      return absl::nullopt;
    };
  };
  EXPECT_EQ(ChooseProgressStyle(false, false, true, term("xterm")),
            ProgressStyle::kTerminal);
  EXPECT_EQ(ChooseProgressStyle(false, false, true, term("dumb")),
            ProgressStyle::kLines);
  EXPECT_EQ(ChooseProgressStyle(false, false, true, term("")),
            ProgressStyle::kLines);
  EXPECT_EQ(ChooseProgressStyle(false, false, false, term("xterm")),
            ProgressStyle::kLines);
  EXPECT_EQ(ChooseProgressStyle(false, true, true, term("xterm")),
            ProgressStyle::kJson);
  EXPECT_EQ(ChooseProgressStyle(true, true, true, term("xterm")),
            ProgressStyle::kNone);
}

// What a display wrote.
class DisplayTest : public OutputFixture {
 protected:
  static StatusReply At(int64_t step) {
    StatusReply status;
    status.set_phase(step == 100 ? StatusReply::DONE : StatusReply::TRAINING);
    status.set_step(step);
    status.set_steps(100);
    status.set_evaluation_version(-1);
    return status;
  }

  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(DisplayTest, TerminalLineIsOverwrittenAndMessagesStandAlone) {
  ProgressDisplay display(pipe_[1], ProgressStyle::kTerminal, 10);
  display.Update(At(1), now_);
  display.Update(At(1), now_);  // Nothing new: nothing written.
  display.Message("worker-1 is gone");
  display.Update(At(2), now_);
  display.Finish();
  EXPECT_EQ(Written(),
            "\rstep 1/100 1%\x1b[K"
            "\r\x1b[Kworker-1 is gone\nstep 1/100 1%"
            "\rstep 2/100 2%\x1b[K\n");
}

TEST_F(DisplayTest, TellsOfEachStageOnce) {
  StatusReply status = At(1);
  const auto add = [&status](int64_t id, const std::string& kind,
                             const std::string& message) {
    JobEvent& event = *status.add_event();
    event.set_id(id);
    event.set_kind(kind);
    event.set_message(message);
  };
  add(1, "worker_joined", "joined");
  add(2, "stage", "first\x1b");
  ProgressDisplay(pipe_[1], ProgressStyle::kNone, 10).ShowStages(status);
  ProgressDisplay display(pipe_[1], ProgressStyle::kLines, 10);
  display.ShowStages(status);
  add(3, "stage", "second");
  display.ShowStages(status);
  display.ShowStages(status);
  EXPECT_EQ(Written(), "first\\x1b\nsecond\n");
}

TEST_F(DisplayTest, LinesComeEveryFewStepsAndAtTheEnd) {
  ProgressDisplay display(pipe_[1], ProgressStyle::kLines, 10);
  for (int step = 0; step <= 100; step += 5) {
    display.Update(At(step), now_);
    display.Update(At(step), now_);
    now_ += absl::Seconds(1);
  }
  std::string expected;
  for (int step = 10; step <= 100; step += 10) {
    expected +=
        "step " + std::to_string(step) + "/100 " + std::to_string(step) + "%\n";
  }
  EXPECT_EQ(Written(), expected);
}

TEST_F(DisplayTest, LinesAreAtLeastASecondApartButForTheLast) {
  ProgressDisplay display(pipe_[1], ProgressStyle::kLines, 1);
  for (int step = 1; step <= 100; ++step) {
    display.Update(At(step), now_);
    now_ += absl::Milliseconds(30);
  }
  EXPECT_EQ(Written(),
            "step 1/100 1%\nstep 35/100 35%\nstep 69/100 69%\n"
            "step 100/100 100%\n");
}

// Its loss was still a mean over several steps, and the results that followed
// showed another one.
TEST_F(DisplayTest, TheLineOfTheLastStepWaitsForItsFinalValues) {
  ProgressDisplay display(pipe_[1], ProgressStyle::kLines, 10);
  StatusReply last = At(100);
  last.set_loss(2.0754);
  for (const auto phase : {StatusReply::TRAINING, StatusReply::EVALUATING,
                           StatusReply::FINISHING}) {
    last.set_phase(phase);
    display.Update(last, now_);
  }
  EXPECT_EQ(Written(), "");
  last.set_phase(StatusReply::DONE);
  last.set_loss(2.1092);
  display.Update(last, now_);
  EXPECT_EQ(Written(), "step 100/100 100% | loss 2.1092\n");
  display.Update(last, now_);
  EXPECT_EQ(Written(), "");
}

TEST_F(DisplayTest, AnEvaluationIsShownAtOnce) {
  ProgressDisplay display(pipe_[1], ProgressStyle::kLines, 10,
                          /*interval=*/absl::Minutes(1));
  display.Update(At(10), now_);
  display.Update(At(20), now_);
  StatusReply status = At(20);
  status.set_evaluation_version(20);
  status.set_evaluation_loss(1.5);
  display.Update(status, now_);
  status.set_step(30);
  display.Update(status, now_);
  EXPECT_EQ(Written(), "step 10/100 10%\nstep 20/100 20% | eval 1.5000\n");
}

TEST_F(DisplayTest, MessagesAmongJsonAreJson) {
  ProgressDisplay display(pipe_[1], ProgressStyle::kJson, 10);
  display.Message("warning: server-0: no checkpoint");
  const auto json = ParseJson(Written());
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["msg"], "server-0: no checkpoint");
  EXPECT_TRUE(json.contains("ts"));
}

TEST_F(DisplayTest, QuietDisplayShowsMessagesOnly) {
  ProgressDisplay display(pipe_[1], ProgressStyle::kNone, 1);
  display.Update(At(1), now_);
  display.Message("warning: x");
  EXPECT_EQ(Written(), "warning: x\n");
}

}  // namespace
}  // namespace tributary
