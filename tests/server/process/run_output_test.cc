#include "server/process/run_output.h"

#include <signal.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/os/logger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// No file of this process may grow beyond it, as if the disk were full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_;
};

class RunOutputTest : public testing::Test {
 protected:
  RunOutputTest() {
    LogOptions options;
    options.standard_error = false;
    options.file = folder_ + "/log";
    log_ = *Logger::Create(options);
    output_ = Open();
  }

  // As a process does that is started in this folder.
  std::unique_ptr<RunOutput> Open() {
    absl::StatusOr<std::unique_ptr<RunOutput>> output =
        RunOutput::Create(run_, log_.get());
    EXPECT_TRUE(output.ok()) << output.status();
    return *std::move(output);
  }

  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(run_ + "/" + name, std::ios::binary) << bytes;
  }

  static std::vector<std::string> Lines(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::vector<std::string> Metrics() { return Lines(run_ + "/metrics.jsonl"); }

  const std::string folder_ = MakeTestFolder();
  const std::string run_ = folder_ + "/a/run";
  std::unique_ptr<Logger> log_;
  std::unique_ptr<RunOutput> output_;
};

TEST_F(RunOutputTest, ARunKeepsItsNameUntilAnotherOneBegins) {
  const std::string name = output_->RunId(/*begins=*/true);
  EXPECT_EQ(name.size(), 16u);
  EXPECT_EQ(Open()->RunId(/*begins=*/false), name);
  EXPECT_NE(Open()->RunId(/*begins=*/true), name);
}

TEST_F(RunOutputTest, MakesTheFoldersAndWritesTheJobWhenItIsToldTo) {
  EXPECT_TRUE(std::filesystem::is_directory(run_));
  EXPECT_FALSE(std::filesystem::exists(run_ + "/job.textproto"));
  EXPECT_TRUE(output_->WriteJob(JobSpec()).ok());
  EXPECT_TRUE(std::filesystem::exists(run_ + "/job.textproto"));
}

TEST_F(RunOutputTest, SaysWhichFolderCannotBeMade) {
  std::ofstream(folder_ + "/file") << "x";
  EXPECT_THAT(
      RunOutput::Create(folder_ + "/file/run", log_.get()),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("cannot create folder " + folder_ + "/file/run")));
}

TEST_F(RunOutputTest, AttemptsCountOnOverProcesses) {
  EXPECT_EQ(*output_->NextAttempt(), 1);
  EXPECT_EQ(*output_->NextAttempt(), 2);
  const auto again = Open();
  EXPECT_EQ(*again->NextAttempt(), 3);
  EXPECT_EQ(*output_->NextAttempt(), 4);
}

// Each call of the disk fails once while the second number is stored.
TEST_F(RunOutputTest, DoesNotTakeANumberThatItCouldNotSyncForThatOfAnother) {
  for (int64_t call = 0;; ++call) {
    SCOPED_TRACE(call);
    std::filesystem::remove(run_ + "/attempt");
    FaultyFileSystem disk(run_);
    const auto output = *RunOutput::Create(run_, log_.get(), &disk);
    ASSERT_EQ(*output->NextAttempt(), 1);
    FaultyFileSystem::Fault fault;
    fault.operation = static_cast<int64_t>(disk.Operations().size()) + call;
    fault.error_number = EIO;
    disk.SetFault(fault);
    if (output->NextAttempt().ok()) break;
    EXPECT_TRUE(output->CheckAttempt(1).ok()) << output->CheckAttempt(1);
    const int64_t next = *Open()->NextAttempt();
    EXPECT_TRUE(next == 2 || next == 3) << next;
    EXPECT_THAT(output->CheckAttempt(1),
                StatusIs(absl::StatusCode::kFailedPrecondition));
  }
}

TEST_F(RunOutputTest, RefusesAnAttemptThatIsNoNumber) {
  // Too long to be one, too.
  for (const std::string& bytes :
       {std::string(), std::string("\n"), std::string("two"), std::string("-1"),
        std::string("1 2"), std::string("99999999999999999999"),
        std::string("1\0002", 3), std::string(1000, '1')}) {
    Write("attempt", bytes);
    const auto refused =
        bytes.size() == 1000
            ? StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(run_ + "/attempt: larger than 64 bytes"))
            : StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr(run_ + "/attempt: does not contain a number"));
    EXPECT_THAT(output_->NextAttempt(), refused) << bytes;
    EXPECT_THAT(output_->CheckAttempt(1), refused) << bytes;
    // It stays for whoever looks into it.
    std::ifstream file(run_ + "/attempt", std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), bytes);
  }
}

TEST_F(RunOutputTest, OnlyTheNewestAttemptIsCurrent) {
  const int64_t mine = *output_->NextAttempt();
  EXPECT_TRUE(output_->CheckAttempt(mine).ok());
  const int64_t other = *Open()->NextAttempt();
  EXPECT_THAT(output_->CheckAttempt(mine),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(run_ + " (attempt 2, ")));
  EXPECT_TRUE(output_->CheckAttempt(other).ok());
}

// Whether the attempt is the newest cannot be told: it must not pass for it.
TEST_F(RunOutputTest, ALostAttemptIsNotCurrent) {
  const int64_t mine = *output_->NextAttempt();
  std::filesystem::remove(run_ + "/attempt");
  EXPECT_THAT(
      output_->CheckAttempt(mine),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr(run_ + "/attempt")));
}

TEST_F(RunOutputTest, RewindsStepsAndEvaluationsEachToTheirOwn) {
  Write("metrics.jsonl",
        "{\"step\":0,\"evaluation_loss\":3}\n"
        "{\"step\":1,\"loss\":2}\n"
        "{\"step\":2,\"skipped\":\"gradient is not finite\"}\n"
        "{\"step\":3,\"loss\":2}\n"
        "{\"step\":3,\"evaluation_loss\":1}\n"
        "{\"step\":4,\"loss\":2}\n"
        "{\"step\":4,\"evaluation_loss\":1}\n"
        "{\"step\":5,\"loss\":2}\n");
  ASSERT_TRUE(output_->RewindMetrics(/*step=*/4, /*evaluated_step=*/3).ok());
  output_->AppendMetrics(R"({"step":4,"evaluation_loss":9})");
  EXPECT_THAT(
      Metrics(),
      ElementsAre(
          "{\"step\":0,\"evaluation_loss\":3}", "{\"step\":1,\"loss\":2}",
          "{\"step\":2,\"skipped\":\"gradient is not "
          "finite\"}",
          "{\"step\":3,\"loss\":2}", "{\"step\":3,\"evaluation_loss\":1}",
          "{\"step\":4,\"loss\":2}", "{\"step\":4,\"evaluation_loss\":9}"));
}

TEST_F(RunOutputTest, RewindsToNothing) {
  Write("metrics.jsonl", "{\"step\":1,\"loss\":2}\n");
  ASSERT_TRUE(output_->RewindMetrics(0, 0).ok());
  EXPECT_THAT(Metrics(), IsEmpty());
}

TEST_F(RunOutputTest, RewindsWhereThereAreNoMetrics) {
  ASSERT_TRUE(output_->RewindMetrics(10, 10).ok());
  output_->AppendMetrics(R"({"step":11})");
  EXPECT_THAT(Metrics(), ElementsAre("{\"step\":11}"));
}

TEST_F(RunOutputTest, DropsLinesThatAreBroken) {
  constexpr char kLines[] =
      "{\"step\":1,\"loss\":2}\n"
      "\n"
      "[1]\n"
      "\0\0\0\n"
      "{\"step\":\"2\"}\n"
      "{\"step\":2.5}\n"
      "{\"loss\":2}\n"
      "{\"step\":2,\"loss\":4}\n"
      "{\"step\":3,\"lo";
  Write("metrics.jsonl", std::string(kLines, sizeof(kLines) - 1));
  ASSERT_TRUE(output_->RewindMetrics(10, 10).ok());
  EXPECT_THAT(Metrics(), ElementsAre("{\"step\":1,\"loss\":2}",
                                     "{\"step\":2,\"loss\":4}"));
}

TEST_F(RunOutputTest, SaysThatMetricsCannotBeRewound) {
  std::filesystem::create_directory(run_ + "/metrics.jsonl");
  EXPECT_THAT(
      output_->RewindMetrics(1, 1),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("cannot rename"), HasSubstr("metrics.jsonl"))));
}

// Row 45: the lines are lost, and one warning says so.
TEST_F(RunOutputTest, AFullDiskCostsLinesAndOneWarning) {
  ASSERT_TRUE(output_->RewindMetrics(1, 1).ok());
  for (const bool events : {false, true}) {
    const auto append = [&](const std::string& line) {
      events ? output_->AppendEvent(line) : output_->AppendMetrics(line);
    };
    const std::string line =
        "{\"step\":1,\"text\":\"" + std::string(10000, 'x') + "\"}";
    append(line);
    {
      // In the midst of the second line to come.
      const FileSizeLimit limit(line.size() + 1 + 11 + 5);
      for (const char* lost :
           {R"({"step":2})", R"({"step":3})", R"({"step":4})"}) {
        append(lost);
      }
    }
    append(R"({"step":5})");
    // No part of the lines that were lost is left.
    EXPECT_THAT(Lines(run_ + (events ? "/events.jsonl" : "/metrics.jsonl")),
                ElementsAre(line, "{\"step\":2}", "{\"step\":5}"));
  }
  EXPECT_THAT(Lines(folder_ + "/log"),
              ElementsAre(HasSubstr("metrics.jsonl in " + run_),
                          HasSubstr("events.jsonl in " + run_)));
}

TEST_F(RunOutputTest, ALineThatAKilledServerHasCutIsRemoved) {
  for (const std::string& whole :
       {std::string(), std::string("{\"id\":1}\n")}) {
    Write("events.jsonl", whole + "{\"id\":2,\"mess" + std::string(5000, 'x'));
    const auto output = RunOutput::Create(run_, log_.get());
    ASSERT_TRUE(output.ok());
    (*output)->AppendEvent(R"({"id":3})");
    std::vector<std::string> expected = {"{\"id\":3}"};
    if (!whole.empty()) expected.insert(expected.begin(), "{\"id\":1}");
    EXPECT_EQ(Lines(run_ + "/events.jsonl"), expected);
  }
}

TEST_F(RunOutputTest, EventsThatCannotBeWrittenCostOneWarning) {
  std::filesystem::create_directory(run_ + "/events.jsonl");
  output_->AppendEvent(R"({"id":1})");
  output_->AppendEvent(R"({"id":2})");
  EXPECT_THAT(Lines(folder_ + "/log"),
              ElementsAre(HasSubstr("events.jsonl in " + run_)));
}

}  // namespace
}  // namespace tributary
