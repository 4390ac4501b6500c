#include "deploy/flags/command_line.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest()
      : line_("train", "[JOB]", "Trains.",
              {{"train job.textproto", "Trains that job."}}) {
    line_.SetOperand(/*required=*/false, &job_);
    line_.AddInteger("workers",
                     "Worker processes, as many as you like but at "
                     "least one and at most a thousand. Default 2.",
                     1, 1000, &workers_);
    line_.AddNumber("temperature", "Heat.", 0, 10, &temperature_);
    line_.AddText("log-file", "FILE", "Log.", &log_file_);
    line_.AddTexts("set", "PATH=VALUE", "Sets.", &sets_);
    line_.AddChoice("log-format", {"text", "json"}, "Form.", &format_);
    line_.AddSwitch("quiet", "Silent.", &quiet_);
    line_.AddHiddenInteger("ready-fd", 0, 100, &ready_fd_);
  }

  absl::StatusOr<bool> Parse(const std::vector<std::string>& arguments) {
    return line_.Parse(
        arguments,
        [this](const std::string& name) -> absl::optional<std::string> {
          const auto found = variables_.find(name);
          if (found == variables_.end()) return absl::nullopt;
          return found->second;
        });
  }

  std::string Error(const std::vector<std::string>& arguments) {
    const absl::Status status = Parse(arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  std::map<std::string, std::string> variables_;
  std::string job_, log_file_, format_ = "text";
  std::vector<std::string> sets_;
  int64_t workers_ = 2, ready_fd_ = -1;
  double temperature_ = 1;
  bool quiet_ = false;
  CommandLine line_;
};

TEST_F(CommandLineTest, KeepsDefaultsWithoutArguments) {
  const absl::StatusOr<bool> parsed = Parse({});
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(*parsed);
  EXPECT_EQ(workers_, 2);
  EXPECT_EQ(job_, "");
  EXPECT_EQ(line_.OriginOf("workers"), "");
}

TEST_F(CommandLineTest, ReadsEveryKindOfFlag) {
  const absl::StatusOr<bool> parsed =
      Parse({"--workers", "4", "job.textproto", "--temperature=0.5", "--quiet",
             "--log-file", "a b", "--log-format=json", "--ready-fd", "3"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(workers_, 4);
  EXPECT_EQ(job_, "job.textproto");
  EXPECT_EQ(temperature_, 0.5);
  EXPECT_TRUE(quiet_);
  EXPECT_EQ(log_file_, "a b");
  EXPECT_EQ(format_, "json");
  EXPECT_EQ(ready_fd_, 3);
  EXPECT_EQ(line_.OriginOf("workers"), "--workers");
}

TEST_F(CommandLineTest, TakesUnderscoresForDashesInNamesOnly) {
  ASSERT_TRUE(
      Parse({"--log_file=my_log", "--set", "a_b=c_d", "--log_format", "json"})
          .ok());
  EXPECT_EQ(log_file_, "my_log");
  EXPECT_THAT(sets_, ElementsAre("a_b=c_d"));
  EXPECT_EQ(format_, "json");
}

TEST_F(CommandLineTest, RepeatedFlagTakesOneValueEach) {
  ASSERT_TRUE(Parse({"--set", "a=1", "job", "--set", "b=[1, 2]"}).ok());
  EXPECT_THAT(sets_, ElementsAre("a=1", "b=[1, 2]"));
  EXPECT_EQ(job_, "job");
}

TEST_F(CommandLineTest, LastOfARepeatedSingleFlagWins) {
  ASSERT_TRUE(Parse({"--workers", "3", "--workers", "5"}).ok());
  EXPECT_EQ(workers_, 5);
}

TEST_F(CommandLineTest, ReadsTheEnvironmentBehindFlags) {
  variables_ = {{"TRIBUTARY_WORKERS", "7"},
                {"TRIBUTARY_LOG_FILE", "x"},
                {"TRIBUTARY_QUIET", "1"},
                {"TRIBUTARY_SET", "a=1;b=2"}};
  ASSERT_TRUE(Parse({"--log-file", "y"}).ok());
  EXPECT_EQ(workers_, 7);
  EXPECT_EQ(log_file_, "y");
  EXPECT_TRUE(quiet_);
  EXPECT_THAT(sets_, ElementsAre("a=1", "b=2"));
  EXPECT_EQ(line_.OriginOf("workers"), "TRIBUTARY_WORKERS");
  EXPECT_EQ(line_.OriginOf("log-file"), "--log-file");
}

TEST_F(CommandLineTest, SwitchCanBeTurnedOff) {
  variables_ = {{"TRIBUTARY_QUIET", "true"}};
  ASSERT_TRUE(Parse({"--quiet=false"}).ok());
  EXPECT_FALSE(quiet_);
}

TEST_F(CommandLineTest, SuggestsTheNearestFlag) {
  EXPECT_EQ(Error({"--worker", "3"}),
            "unknown flag --worker; did you mean --workers? (see 'tributary "
            "train --help')");
  EXPECT_THAT(Error({"--qiet"}), HasSubstr("did you mean --quiet?"));
  EXPECT_THAT(Error({"--log-fromat=json"}),
              StartsWith("unknown flag --log-fromat; did you mean "
                         "--log-format?"));
}

TEST_F(CommandLineTest, SuggestsNothingForAForeignFlag) {
  EXPECT_THAT(Error({"--zzzzzzzzzzzz"}),
              StartsWith("unknown flag --zzzzzzzzzzzz (see"));
}

TEST_F(CommandLineTest, NeverSuggestsHiddenFlags) {
  EXPECT_THAT(Error({"--ready-fb"}), testing::Not(HasSubstr("ready-fd")));
}

TEST_F(CommandLineTest, ExplainsBadValues) {
  EXPECT_THAT(Error({"--workers", "two"}),
              StartsWith("flag --workers: 'two' is not a whole number from 1 "
                         "to 1000"));
  EXPECT_THAT(Error({"--workers", "0"}), HasSubstr("'0' is not"));
  EXPECT_THAT(Error({"--workers", "-3"}), HasSubstr("'-3' is not"));
  EXPECT_THAT(Error({"--workers="}), HasSubstr("--workers"));
  EXPECT_THAT(Error({"--temperature", "nan"}), HasSubstr("'nan'"));
  EXPECT_THAT(Error({"--log-format", "xml"}),
              HasSubstr("'xml' is not one of text|json"));
  variables_ = {{"TRIBUTARY_WORKERS", "many"}};
  EXPECT_THAT(Error({}),
              StartsWith("environment variable TRIBUTARY_WORKERS: 'many' is "
                         "not"));
}

TEST_F(CommandLineTest, ExplainsMissingValuesAndSurplusArguments) {
  EXPECT_THAT(Error({"--workers"}), StartsWith("flag --workers needs a value"));
  EXPECT_THAT(Error({"job", "another"}),
              StartsWith("unexpected argument 'another'"));
}

TEST_F(CommandLineTest, DemandsARequiredOperand) {
  std::string directory;
  CommandLine line("sample", "DIR", "Writes.", {});
  line.SetOperand(/*required=*/true, &directory);
  const absl::Status status =
      line.Parse({}, [](const std::string&) { return absl::nullopt; }).status();
  EXPECT_EQ(status.message(), "missing DIR (see 'tributary sample --help')");
}

TEST_F(CommandLineTest, HelpIsAnsweredBeforeAnythingIsChecked) {
  const absl::StatusOr<bool> parsed = Parse({"--workers", "0", "-h"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_FALSE(*parsed);
}

TEST_F(CommandLineTest, HelpIsNarrowAndShowsExamplesFirst) {
  const std::string help = line_.Help();
  EXPECT_LT(help.find("Examples:"), help.find("Usage: tributary train"));
  EXPECT_THAT(help, HasSubstr("  --workers N           Worker processes"));
  EXPECT_THAT(help, testing::Not(HasSubstr("ready-fd")));
  for (absl::string_view text : absl::StrSplit(help, '\n')) {
    EXPECT_LE(text.size(), 80u) << text;
  }
}

TEST(CommandLineOperandsTest, ThereMayBeTwo) {
  std::string first, second;
  CommandLine line("diff", "A B", "Compares.", {{"diff a b", "Compares."}});
  line.SetOperand(/*required=*/true, &first);
  line.SetOperand(/*required=*/true, &second);
  const auto parse = [&](const std::vector<std::string>& arguments) {
    return line.Parse(arguments,
                      [](const std::string&) { return absl::nullopt; });
  };
  ASSERT_TRUE(parse({"x", "y"}).ok());
  EXPECT_EQ(first + second, "xy");
  EXPECT_THAT(std::string(parse({"x"}).status().message()),
              HasSubstr("missing A B"));
  EXPECT_THAT(std::string(parse({"x", "y", "z"}).status().message()),
              HasSubstr("unexpected argument 'z'"));
}

}  // namespace
}  // namespace tributary
