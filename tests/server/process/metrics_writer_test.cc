#include "server/process/metrics_writer.h"

#include <cstdint>
#include <deque>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/thread_pool.h"
#include "common/os/logger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/process/run_output.h"
#include "tests/support/command_runner.h"
#include "tests/support/executors.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class MetricsWriterTest : public testing::Test {
 protected:
  MetricsWriterTest() {
    LogOptions options;
    options.standard_error = false;
    options.file = folder_ + "/log";
    log_ = *Logger::Create(options);
    output_ = *RunOutput::Create(folder_, log_.get());
  }

  static std::string Step(int64_t step) {
    return absl::StrCat("{\"step\":", step, "}");
  }

  static std::vector<std::string> Lines(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  std::vector<std::string> Metrics() {
    return Lines(folder_ + "/metrics.jsonl");
  }

  const std::string folder_ = MakeTestFolder();
  std::unique_ptr<Logger> log_;
  std::unique_ptr<RunOutput> output_;
  // A disk that answers when the test says so.
  HeldExecutor disk_;
};

TEST_F(MetricsWriterTest, WritesNothingOnTheThreadOfTheCaller) {
  MetricsWriter writer(output_.get(), log_.get(),
                       std::make_unique<HeldExecutor>(disk_));
  std::ofstream(folder_ + "/metrics.jsonl") << "{\"step\":7}\n";
  bool rewound = false;
  writer.Rewind(0, 0, [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    rewound = true;
  });
  writer.Append(Step(1));
  EXPECT_FALSE(rewound);
  EXPECT_THAT(Metrics(), ElementsAre("{\"step\":7}"));
  disk_.RunAll();
  EXPECT_TRUE(rewound);
  EXPECT_THAT(Metrics(), ElementsAre("{\"step\":1}"));
}

TEST_F(MetricsWriterTest, KeepsTheOrderAcrossRewindsAndFlushes) {
  MetricsWriter writer(output_.get(), log_.get(),
                       std::make_unique<ThreadPool>(1));
  const auto ok = [](const absl::Status& status) { EXPECT_TRUE(status.ok()); };
  writer.Rewind(0, 0, ok);
  for (int64_t step = 1; step <= 300; ++step) writer.Append(Step(step));
  writer.Rewind(100, 100, ok);
  for (int64_t step = 101; step <= 200; ++step) writer.Append(Step(step));
  writer.Flush();
  const std::vector<std::string> metrics = Metrics();
  ASSERT_EQ(metrics.size(), 200u);
  for (int64_t step = 1; step <= 200; ++step) {
    EXPECT_EQ(metrics[step - 1], Step(step));
  }
}

TEST_F(MetricsWriterTest, PassesOnEachLineThatIsWritten) {
  std::vector<std::string> lines;
  MetricsWriter writer(
      output_.get(), log_.get(), std::make_unique<HeldExecutor>(disk_),
      [&lines](const std::string& line) { lines.push_back(line); });
  writer.Append(Step(1));
  writer.Append(Step(2));
  EXPECT_TRUE(lines.empty());
  disk_.RunAll();
  EXPECT_THAT(lines, ElementsAre(Step(1), Step(2)));
}

TEST_F(MetricsWriterTest, PassesOnALineThatItCannotWrite) {
  // A folder in the way of the file.
  ASSERT_EQ(RunCommand({"/bin/mkdir", folder_ + "/metrics.jsonl"}).exit_code,
            0);
  std::vector<std::string> lines;
  MetricsWriter writer(
      output_.get(), log_.get(), std::make_unique<HeldExecutor>(disk_),
      [&lines](const std::string& line) { lines.push_back(line); });
  writer.Append(Step(1));
  disk_.RunAll();
  EXPECT_THAT(Lines(folder_ + "/log"), ElementsAre(HasSubstr("metrics.jsonl")));
  EXPECT_THAT(lines, ElementsAre(Step(1)));
}

TEST_F(MetricsWriterTest, WritesWhatIsLeftBeforeItEnds) {
  {
    MetricsWriter writer(output_.get(), log_.get(),
                         std::make_unique<ThreadPool>(1));
    writer.Rewind(0, 0, [](const absl::Status&) {});
    for (int64_t step = 1; step <= 50; ++step) writer.Append(Step(step));
  }
  EXPECT_EQ(Metrics().size(), 50u);
}

TEST_F(MetricsWriterTest, ADiskThatHangsCostsLinesBeyondTheBoundAndOneWarning) {
  MetricsWriter writer(output_.get(), log_.get(),
                       std::make_unique<HeldExecutor>(disk_));
  writer.Rewind(0, 0, [](const absl::Status&) {});
  for (int64_t step = 1; step <= MetricsWriter::kMostWaiting + 3; ++step) {
    writer.Append(Step(step));
  }
  EXPECT_EQ(disk_.size(), MetricsWriter::kMostWaiting + 1);
  disk_.RunAll();
  writer.Append(Step(99999));
  disk_.RunAll();
  const std::vector<std::string> metrics = Metrics();
  ASSERT_EQ(metrics.size(), MetricsWriter::kMostWaiting + 1);
  EXPECT_EQ(metrics[MetricsWriter::kMostWaiting - 1],
            Step(MetricsWriter::kMostWaiting));
  EXPECT_EQ(metrics.back(), Step(99999));
  EXPECT_THAT(Lines(folder_ + "/log"),
              ElementsAre(HasSubstr("metrics.jsonl lacks 3 lines")));
}

TEST_F(MetricsWriterTest, DroppedEventsAreNotCountedAsMetrics) {
  MetricsWriter writer(output_.get(), log_.get(),
                       std::make_unique<HeldExecutor>(disk_));
  writer.Rewind(0, 0, [](const absl::Status&) {});
  for (int64_t step = 1; step <= MetricsWriter::kMostWaiting; ++step) {
    writer.Append(Step(step));
  }
  writer.AppendEvent(JobEvent());
  disk_.RunAll();
  EXPECT_THAT(Lines(folder_ + "/log"),
              ElementsAre(HasSubstr("events.jsonl lacks 1 line:")));
}

TEST_F(MetricsWriterTest, KeepsEventsWhenMetricsAreRewound) {
  MetricsWriter writer(output_.get(), log_.get(),
                       std::make_unique<HeldExecutor>(disk_));
  JobEvent event;
  event.set_kind("a");
  writer.AppendEvent(event);
  EXPECT_THAT(Lines(folder_ + "/events.jsonl"), ElementsAre());
  writer.Rewind(0, 0, [](const absl::Status&) {});
  event.set_kind("b");
  writer.AppendEvent(event);
  disk_.RunAll();
  EXPECT_THAT(
      Lines(folder_ + "/events.jsonl"),
      ElementsAre(HasSubstr("\"kind\":\"a\""), HasSubstr("\"kind\":\"b\"")));
  // A new run in the folder has events of its own; a resumed run keeps them.
  const auto resumed = *RunOutput::Create(folder_, log_.get());
  resumed->RunId(/*begins=*/false);
  resumed->AppendEvent("{\"kind\":\"c\"}");
  EXPECT_EQ(Lines(folder_ + "/events.jsonl").size(), 3u);
  const auto begun = *RunOutput::Create(folder_, log_.get());
  begun->RunId(/*begins=*/true);
  begun->AppendEvent("{\"kind\":\"d\"}");
  EXPECT_THAT(Lines(folder_ + "/events.jsonl"),
              ElementsAre("{\"kind\":\"d\"}"));
}

TEST_F(MetricsWriterTest, TellsWhyItCannotRewind) {
  MetricsWriter writer(output_.get(), log_.get(),
                       std::make_unique<ThreadPool>(1));
  // A folder in the way of the file.
  ASSERT_EQ(RunCommand({"/bin/mkdir", folder_ + "/metrics.jsonl"}).exit_code,
            0);
  absl::Status told;
  writer.Rewind(1, 1, [&](const absl::Status& status) { told = status; });
  writer.Flush();
  EXPECT_THAT(told, StatusIs(absl::StatusCode::kFailedPrecondition,
                             AllOf(HasSubstr("cannot rename "),
                                   HasSubstr("/metrics.jsonl: "))));
}

}  // namespace
}  // namespace tributary
