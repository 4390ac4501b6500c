#include "deploy/tools/dashboard/run_log.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/os/logger.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

namespace fs = std::filesystem;

class RunLogTest : public testing::TestWithParam<bool> {
 protected:
  RunLogTest() : folder_(fs::path(testing::TempDir()) / "run_log") {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "logs");
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  const fs::path folder_;
};

// What the logger writes, in both formats.
TEST_P(RunLogTest, ParsesTheLinesOfTheLogger) {
  LogOptions options;
  options.json = GetParam();
  options.role = "worker";
  options.rank = 3;
  options.level = LogLevel::kDebug;
  options.standard_error = false;
  options.file = (folder_ / "logs/worker-3.log").string();
  {
    const auto log = Logger::Create(options);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Debug("one: %d", 1);
    (*log)->Warning("first line\nsecond: line");
  }
  const UntrustedFolder run(folder_.string());
  const auto entries = NewestLogEntries(run, "worker-3.log", 10);
  ASSERT_EQ(entries.size(), 2);
  EXPECT_EQ(entries[0]["level"], "debug");
  EXPECT_EQ(entries[0]["process"], "worker 3");
  EXPECT_EQ(entries[0]["message"], "one: 1");
  EXPECT_EQ(entries[1]["level"], "warning");
  EXPECT_EQ(entries[1]["message"], "first line\nsecond: line");
  EXPECT_EQ(entries[1]["time"].get<std::string>().substr(0, 2), "20");
  EXPECT_EQ(NewestLogEntries(run, "worker-3.log", 1)[0]["level"], "warning");
}
INSTANTIATE_TEST_SUITE_P(Formats, RunLogTest, testing::Bool());

// Output of libraries, crashes and programs, which are not of the logger.
TEST(ParseLogTest, KeepsOtherLinesWhole) {
  const auto entries = ParseLog(
      "Traceback (most recent call last):\n"
      "  File \"a.py\", line 1, in <module>\r\n"
      "2026-01-01T00:00:00.5Z info worker 1: begins\n"
      "{\"loss\": 1}\n"
      "T info worker 1: no time\n"
      "2026-01-01T00:00:00Z verbose worker 1: no level\n"
      "{\"ts\":\"2026-01-01T00:00:01Z\",\"level\":\"error\",\"msg\":\"bad\","
      "\"role\":\"launcher\"}\n"
      "2026-01-01T00:00:02Z error without a colon\n");
  ASSERT_EQ(entries.size(), 5) << entries;
  EXPECT_EQ(entries[0]["level"], "output");
  EXPECT_EQ(entries[0]["time"], "");
  EXPECT_EQ(entries[0]["message"],
            "Traceback (most recent call last):\n"
            "  File \"a.py\", line 1, in <module>");
  EXPECT_EQ(entries[1]["message"], "begins");
  EXPECT_EQ(entries[2]["message"],
            "{\"loss\": 1}\nT info worker 1: no time\n"
            "2026-01-01T00:00:00Z verbose worker 1: no level");
  EXPECT_EQ(entries[3]["process"], "launcher");
  EXPECT_EQ(entries[3]["message"], "bad");
  EXPECT_EQ(entries[4]["process"], "");
  EXPECT_EQ(entries[4]["message"], "without a colon");
}

TEST_F(RunLogTest, ListsTheLogsOfAllProcesses) {
  for (const char* name : {"worker-1.log", "server-0.log", "worker-1.log.1"}) {
    Write(absl::StrCat("logs/", name), "x\n");
  }
  Write("logs/job.textproto", "secret");
  Write("outside.log", "x\n");
  fs::create_symlink(folder_ / "outside.log", folder_ / "logs/link.log");
  const UntrustedFolder run(folder_.string());
  std::string names;
  for (const auto& log : LogFiles(run)) {
    absl::StrAppend(&names, log["name"].get<std::string>(), " ");
    EXPECT_EQ(log["bytes"], 2);
    EXPECT_GT(log["modified"], 1600000000);
  }
  EXPECT_EQ(names, "server-0.log worker-1.log worker-1.log.1 ");
  EXPECT_TRUE(NewestLogEntries(run, "../outside.log", 10).empty());
  EXPECT_TRUE(NewestLogEntries(run, "link.log", 10).empty());
}

}  // namespace
}  // namespace tributary
