#include "common/os/logger.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/full_pipe.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

// A logger that writes to a new file only.
class LogTest : public testing::Test {
 protected:
  std::unique_ptr<Logger> Create(LogOptions options) {
    file_ = testing::TempDir() + "/" +
            testing::UnitTest::GetInstance()->current_test_info()->name() +
            "/logs/file.log";
    unlink(file_.c_str());
    options.standard_error = false;
    options.role = "worker";
    options.file = file_;
    return *Logger::Create(options);
  }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines =
        absl::StrSplit(*ReadFile(file_, 1 << 20), '\n');
    EXPECT_EQ(lines.back(), "");
    lines.pop_back();
    return lines;
  }

  std::string file_;
};

TEST_F(LogTest, WritesLinesOfText) {
  const auto log = Create({});
  log->Info("step %d: loss %.2f", 3, 0.5);
  log->SetRank(2);
  log->Error("bad");
  ASSERT_THAT(Lines(), SizeIs(2));
  EXPECT_THAT(Lines()[0], MatchesRegex("20..-..-..T..:..:..[.]......Z info "
                                       "worker: step 3: loss 0.50"));
  EXPECT_THAT(Lines()[1], HasSubstr("Z error worker 2: bad"));
}

TEST_F(LogTest, PassesWarningsAndErrorsOn) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  LogOptions options;
  options.json = true;
  options.warning_fd = ends[1];
  const auto log = Create(options);
  log->Info("step");
  log->Warning("disk full:\n%d bytes", 3);
  log->Error("bad");
  log->Warning("%s", std::string(100000, 'x'));
  char bytes[8192];
  const ssize_t count = read(ends[0], bytes, sizeof(bytes));
  ASSERT_GT(count, 0);
  // A long line is cut.
  EXPECT_EQ(
      std::string(bytes, count),
      "disk full:\\n3 bytes\nbad\n" + std::string(PIPE_BUF - 1, 'x') + "\n");
  // Nobody reads: nothing is waited for.
  for (int i = 0; i < 100; ++i) log->Warning("%s", std::string(4000, 'y'));
  EXPECT_THAT(Lines(), SizeIs(104));
  close(ends[0]);
  close(ends[1]);
}

TEST_F(LogTest, WritesJson) {
  LogOptions options;
  options.json = true;
  options.rank = 1;
  const auto log = Create(options);
  log->Warning("a \"quoted\"\nline with %s", "\xff");
  ASSERT_THAT(Lines(), SizeIs(1));
  const auto object = ParseJson(Lines()[0]);
  EXPECT_EQ(object["level"], "warning");
  EXPECT_EQ(object["msg"], "a \"quoted\"\nline with \xEF\xBF\xBD");
  EXPECT_EQ(object["role"], "worker");
  EXPECT_EQ(object["rank"], 1);
  EXPECT_EQ(object["pid"], getpid());
  EXPECT_THAT(object["ts"].get<std::string>(),
              MatchesRegex("20.*T.*[.]......Z"));
  EXPECT_FALSE(object["host"].get<std::string>().empty());
}

TEST_F(LogTest, DropsLinesBelowTheLevel) {
  LogOptions options;
  options.level = LogLevel::kWarning;
  const auto log = Create(options);
  log->Debug("no");
  log->Info("no");
  log->Write(LogLevel::kInfo, "no");
  log->Warning("yes");
  EXPECT_THAT(Lines(), SizeIs(1));
}

TEST_F(LogTest, OneMessageIsOneLine) {
  const auto log = Create({});
  log->Info("%s", "first\nerror: forged\x1b[2J");
  ASSERT_THAT(Lines(), SizeIs(1));
  EXPECT_THAT(Lines()[0], HasSubstr("first\\nerror: forged\\x1b[2J"));
}

TEST_F(LogTest, MessagesAreNotFormats) {
  const auto log = Create({});
  log->Write(LogLevel::kInfo, "{} %s {0:>100000000}");
  EXPECT_THAT(Lines()[0], HasSubstr(": {} %s {0:>100000000}"));
}

TEST_F(LogTest, LinesOfSeveralThreadsStayWhole) {
  const auto log = Create({});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 50; ++i) log->Info("%s", std::string(50, 'x'));
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_THAT(Lines(), SizeIs(200));
  for (const std::string& line : Lines()) {
    EXPECT_THAT(line, HasSubstr(": " + std::string(50, 'x')));
  }
}

TEST_F(LogTest, KeepsTheOrderOfLinesThatItWritesLater) {
  const auto log = Create({});
  for (int i = 0; i < 100; ++i) {
    log->WriteLater(LogLevel::kInfo, absl::StrCat("line ", 2 * i));
    log->Info("line %d", 2 * i + 1);
  }
  // Info has written the lines that waited.
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(200));
  for (int i = 0; i < 200; ++i) {
    EXPECT_THAT(lines[i], EndsWith(absl::StrCat(" worker: line ", i)));
  }
}

TEST_F(LogTest, FlushesWhatWaits) {
  const auto log = Create({});
  for (int i = 0; i < 500; ++i) log->WriteLater(LogLevel::kError, "x\ny");
  log->WriteLater(LogLevel::kDebug, "no");
  log->Flush();
  ASSERT_THAT(Lines(), SizeIs(500));
  EXPECT_THAT(Lines()[499], HasSubstr(" error worker: x\\ny"));
}

TEST_F(LogTest, WritesWhatWaitsBeforeItEnds) {
  auto log = Create({});
  for (int i = 0; i < 500; ++i) log->WriteLater(LogLevel::kInfo, "x");
  log.reset();
  EXPECT_THAT(Lines(), SizeIs(500));
}

// A logger whose file accepts nothing until the test reads it.
class StuckLogTest : public testing::Test {
 protected:
  StuckLogTest() {
    LogOptions options;
    options.standard_error = false;
    options.file = path_;
    log_ = *Logger::Create(options);
  }

  const std::string path_ = MakeTestFolder() + "/log";
  FullPipe file_{path_};
  std::unique_ptr<Logger> log_;
};

TEST_F(StuckLogTest, WriteLaterDoesNotWaitForTheFile) {
  log_->WriteLater(LogLevel::kInfo, "one");
  log_->WriteLater(LogLevel::kWarning, "two");
  const std::vector<std::string> lines =
      absl::StrSplit(file_.ReadUntil("two\n"), '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, ElementsAre(EndsWith(": one"), EndsWith(": two")));
}

TEST_F(StuckLogTest, PassesAWarningOnBeforeTheFileTakesIt) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  LogOptions options;
  options.standard_error = false;
  options.file = path_;
  options.warning_fd = ends[1];
  const auto log = *Logger::Create(options);
  log->WriteLater(LogLevel::kWarning, "bad");
  char bytes[16];
  EXPECT_EQ(read(ends[0], bytes, sizeof(bytes)), 4);
  file_.ReadUntil("bad\n");
  close(ends[0]);
  close(ends[1]);
}

TEST_F(StuckLogTest, LosesLinesBeyondTheBoundAndSaysHowMany) {
  const int most = static_cast<int>(Logger::kMostWaiting);
  for (int i = 0; i < most + 3; ++i) {
    log_->WriteLater(LogLevel::kInfo, absl::StrCat("line ", i));
  }
  const std::vector<std::string> lines = absl::StrSplit(
      file_.ReadUntil("lines were waiting for it\n"), '\n', absl::SkipEmpty());
  ASSERT_THAT(lines, SizeIs(most + 1));
  for (int i = 0; i < most; ++i) {
    EXPECT_THAT(lines[i], EndsWith(absl::StrCat(": line ", i)));
  }
  EXPECT_THAT(lines.back(), HasSubstr("lacks 3 lines"));
}

TEST(LoggerTest, SaysWhenTheFileCannotBeOpened) {
  LogOptions options;
  options.file = "/proc/nowhere/log";
  const auto log = Logger::Create(options);
  EXPECT_THAT(log, StatusIs(absl::StatusCode::kUnavailable,
                            HasSubstr("/proc/nowhere/log")));
}

TEST(ParseLogLevelTest, KnowsTheLevels) {
  EXPECT_EQ(*ParseLogLevel("debug"), LogLevel::kDebug);
  EXPECT_EQ(*ParseLogLevel("ERROR"), LogLevel::kError);
  EXPECT_THAT(ParseLogLevel("loud"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"loud\" is not one of debug")));
}

}  // namespace
}  // namespace tributary
