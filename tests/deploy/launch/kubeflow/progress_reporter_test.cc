#include "deploy/launch/kubeflow/progress_reporter.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using ::testing::HasSubstr;

StatusReply Status(int64_t step, int64_t steps) {
  StatusReply status;
  status.set_phase(StatusReply::TRAINING);
  status.set_step(step);
  status.set_steps(steps);
  status.set_loss(1.25);
  status.set_seconds_left(12.3);
  status.set_evaluation_version(-1);
  return status;
}

nlohmann::json Format(const StatusReply& status, bool done) {
  return nlohmann::json::parse(
      FormatTrainerStatus(status, done, absl::UnixEpoch()))["trainerStatus"];
}

// Returns the value of a metric; empty if there is none.
std::string Metric(const nlohmann::json& report, const std::string& name) {
  for (const auto& metric : report["metrics"]) {
    if (metric["name"] == name) return metric["value"];
  }
  return "";
}

TEST(FormatTrainerStatusTest, WritesWhatKubeflowExpects) {
  const nlohmann::json report = Format(Status(250, 1000), /*done=*/false);
  EXPECT_EQ(report["progressPercentage"], 25);
  EXPECT_EQ(report["estimatedRemainingSeconds"], 13);
  EXPECT_EQ(report["lastUpdatedTime"], "1970-01-01T00:00:00Z");
  EXPECT_EQ(Metric(report, "loss"), "1.25");
  EXPECT_EQ(Metric(report, "step"), "250");
  EXPECT_EQ(Metric(report, "evaluation_loss"), "");
}

TEST(FormatTrainerStatusTest, IsAtHundredPercentOnlyWhenTheJobIsDone) {
  const StatusReply last = Status(1000, 1000);
  EXPECT_EQ(Format(last, /*done=*/false)["progressPercentage"], 99);
  const nlohmann::json done = Format(Status(990, 1000), /*done=*/true);
  EXPECT_EQ(done["progressPercentage"], 100);
  EXPECT_EQ(done["estimatedRemainingSeconds"], 0);
  EXPECT_EQ(Metric(done, "step"), "1000");
}

TEST(FormatTrainerStatusTest, LeavesOutWhatIsNotKnown) {
  StatusReply status = Status(0, 1000);
  status.set_seconds_left(0);
  EXPECT_FALSE(Format(status, false).contains("estimatedRemainingSeconds"));
  EXPECT_TRUE(Format(StatusReply(), true)["metrics"].empty());
}

class ProgressReporterTest : public testing::Test {
 protected:
  ProgressReporterTest() {
    options_.interval = absl::Milliseconds(20);
    options_.patience = absl::Seconds(60);
    options_.status = [this] {
      absl::MutexLock lock(&mu_);
      return status_;
    };
    options_.post = [this](const std::string& json) {
      absl::MutexLock lock(&mu_);
      posts_.push_back(json);
      return result_;
    };
    options_.log = log_.get();
  }

  void AwaitPosts(size_t count) {
    const auto enough = [&] { return posts_.size() >= count; };
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(
        mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(60)));
  }

  const std::unique_ptr<Logger> log_ = Logger::Create(LogOptions()).value();
  ProgressReporter::Options options_;
  absl::Mutex mu_;
  StatusReply status_ = Status(1, 10);
  absl::Status result_;
  std::vector<std::string> posts_;
};

TEST_F(ProgressReporterTest, ReportsWhileTheJobRunsAndWhenItIsDone) {
  ProgressReporter reporter(options_);
  AwaitPosts(2);
  reporter.Finish(/*done=*/true);
  EXPECT_THAT(posts_.front(), HasSubstr("\"progressPercentage\":10,"));
  EXPECT_THAT(posts_.back(), HasSubstr("\"progressPercentage\":100,"));
}

TEST_F(ProgressReporterTest, LeavesTheLastReportOfAJobThatStopped) {
  ProgressReporter reporter(options_);
  AwaitPosts(1);
  reporter.Finish(/*done=*/false);
  EXPECT_THAT(posts_.back(), HasSubstr("\"progressPercentage\":10,"));
}

TEST_F(ProgressReporterTest, WarnsOnceAndContinues) {
  result_ = absl::UnavailableError("the server is away");
  testing::internal::CaptureStderr();
  ProgressReporter reporter(options_);
  AwaitPosts(3);
  reporter.Finish(/*done=*/true);
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t first = log.find("the server is away; the job is not affected");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("the server is away", first + 1), std::string::npos);
}

TEST_F(ProgressReporterTest, DoesNotWaitForAServerThatHangs) {
  const auto hangs = std::make_shared<absl::Notification>();
  const auto release = std::make_shared<absl::Notification>();
  options_.patience = absl::Milliseconds(50);
  options_.status = [] { return Status(1, 10); };
  options_.post = [hangs, release](const std::string&) {
    if (!hangs->HasBeenNotified()) hangs->Notify();
    release->WaitForNotification();
    return absl::OkStatus();
  };
  ProgressReporter reporter(options_);
  hangs->WaitForNotification();
  reporter.Finish(/*done=*/true);
  release->Notify();
}

TEST(MakeProgressReporterTest, ReportsNothingOutsideOfKubeflow) {
  const auto none = [](const std::string&) {
    return absl::optional<std::string>();
  };
  EXPECT_EQ(MakeProgressReporter(none, "127.0.0.1:1", Security(), nullptr),
            nullptr);
}

}  // namespace
}  // namespace tributary
