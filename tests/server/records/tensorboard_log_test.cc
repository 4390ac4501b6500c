#include "server/records/tensorboard_log.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TensorBoardLogTest : public ::testing::Test {
 protected:
  TensorBoardLogTest() {
    directory_ = absl::StrCat(
        testing::TempDir(), "/",
        testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
    job_ = ResolveJob(TinyJob("mlp", directory_));
    LogOptions options;
    options.standard_error = false;
    options.file = directory_ + "/log";
    log_ = *Logger::Create(options);
  }

  // Returns the bytes of all event files, in the order of their names.
  std::string Events() {
    std::string bytes;
    for (const std::string& name :
         ListFolder(directory_ + "/tensorboard").value_or(Names())) {
      bytes +=
          ReadFile(absl::StrCat(directory_, "/tensorboard/", name), 1 << 20)
              .value_or("");
    }
    return bytes;
  }
  std::string Log() {
    return ReadFile(directory_ + "/log", 1 << 20).value_or("");
  }
  using Names = std::vector<std::string>;

  std::string directory_;
  JobSpec job_;
  std::unique_ptr<Logger> log_;
};

constexpr char kLine[] =
    R"({"step": 3, "loss": 1.5, "learning_rate": null, "workers": []})";

TEST_F(TensorBoardLogTest, WritesTheLinesAndTheSession) {
  TensorBoardLog events(job_, directory_, log_.get());
  events.Begin(/*step=*/0);
  events.Add(kLine);
  events.Add(R"({"step": 4, "evaluation_loss": 2})");
  events.Add("torn");
  events.End(/*success=*/true);
  EXPECT_THAT(
      Events(),
      AllOf(HasSubstr("brain.Event:2"), HasSubstr("train/loss"),
            Not(HasSubstr("train/learning_rate")), HasSubstr("evaluation/loss"),
            HasSubstr("session_start_info"), HasSubstr("micro_batches"),
            HasSubstr("session_end_info")));
  EXPECT_EQ(Log(), "");
}

TEST_F(TensorBoardLogTest, EachAttemptHasAFile) {
  TensorBoardLog events(job_, directory_, log_.get());
  events.Begin(/*step=*/0);
  events.Add(kLine);
  const std::string first = Events();
  std::ofstream(directory_ + "/metrics.jsonl")
      << R"({"step": 2, "loss": 1})"
      << "\n"
      << R"({"step": 3, "gradient_norm": 1})"
      << "\n";
  events.Begin(/*step=*/3);
  // The second file begins with an order to drop step 3 (field 2) and those
  // after it: session_log (field 7) with status START. What metrics.jsonl has
  // of step 3 follows.
  EXPECT_THAT(
      Events().substr(first.size()),
      AllOf(HasSubstr(std::string("\x10\x03\x3a\x02\x08\x01", 6)),
            HasSubstr("train/gradient_norm"), Not(HasSubstr("train/loss"))));
  EXPECT_THAT(first, Not(HasSubstr(std::string("\x3a\x02\x08\x01", 4))));
}

TEST_F(TensorBoardLogTest, CanBeTurnedOff) {
  job_.mutable_output()->set_tensorboard(false);
  TensorBoardLog events(job_, directory_, log_.get());
  events.Begin(/*step=*/0);
  events.Add(kLine);
  events.End(/*success=*/false);
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/tensorboard"));
}

TEST_F(TensorBoardLogTest, AnErrorIsLoggedOnce) {
  TensorBoardLog events(job_, "/proc/none", log_.get());
  events.Begin(/*step=*/0);
  events.Begin(/*step=*/1);
  events.Add(kLine);
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("the TensorBoard files are incomplete"));
  EXPECT_EQ(log.find("incomplete"), log.rfind("incomplete"));
}

}  // namespace
}  // namespace tributary
