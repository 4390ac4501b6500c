// The command lines that README.md and the manual in docs/ show: each is one
// that the program accepts.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

using Words = std::vector<std::string>;

std::string Pages() {
  std::string pages = ReadWholeFile("README.md");
  for (const auto& page : std::filesystem::directory_iterator("docs")) {
    if (page.path().extension() != ".md") continue;
    absl::StrAppend(&pages, "\n", ReadWholeFile(page.path().string()));
  }
  // A command may go on in the next line.
  return absl::StrReplaceAll(pages, {{"\\\n", " "}});
}

// The words after `./tributary` on each line of code that begins with it,
// without the comment, and between backquotes in prose. JOB.textproto stands
// for any job.
std::vector<Words> CommandLines() {
  constexpr absl::string_view kStart = "./tributary ";
  const std::string pages = Pages();
  std::vector<Words> commands;
  for (absl::string_view line : absl::StrSplit(pages, '\n')) {
    std::vector<absl::string_view> found;
    absl::ConsumePrefix(&line, "$ ");
    if (absl::StartsWith(line, kStart)) {
      found.push_back(line.substr(0, line.find(" #")));
    } else {
      for (const absl::string_view code : absl::StrSplit(line, '`')) {
        if (absl::StartsWith(code, kStart)) found.push_back(code);
      }
    }
    for (absl::string_view text : found) {
      text.remove_prefix(kStart.size());
      commands.push_back(
          absl::StrSplit(absl::StrReplaceAll(text, {{"JOB.textproto",
                                                     "examples/licenses."
                                                     "textproto"}}),
                         ' ', absl::SkipEmpty()));
    }
  }
  return commands;
}

std::vector<Words> CommandLinesOf(const std::string& command) {
  std::vector<Words> lines = CommandLines();
  lines.erase(
      std::remove_if(lines.begin(), lines.end(),
                     [&](const Words& words) { return words[0] != command; }),
      lines.end());
  return lines;
}

CommandResult RunTributary(Words arguments) {
  arguments.insert(arguments.begin(), kTributary);
  return RunCommand(arguments);
}

// Of a command, or of an action of those that have some.
std::string HelpOn(const Words& words) {
  static const auto* const kWithActions =
      new std::set<std::string>{"bench", "checkpoint"};
  // Commands of the start script.
  static const auto* const kScripts = new std::map<std::string, std::string>{
      {"install", "library/install/install.sh"},
      {"package", "deploy/package/package.sh"},
      {"test", "tests/run_all.sh"},
      {"wheel", "python/build_wheel.py"}};
  const auto script = kScripts->find(words[0]);
  if (script != kScripts->end()) {
    return RunCommand({script->second, "--help"}).standard_output;
  }
  Words arguments = {words[0], "--help"};
  if (kWithActions->count(words[0]) > 0) {
    arguments.insert(arguments.begin() + 1, words.at(1));
  }
  const CommandResult help = RunTributary(arguments);
  EXPECT_EQ(help.exit_code, 0) << help.standard_error;
  return help.standard_output;
}

TEST(ReadmeTest, ShowsWhatItShould) {
  for (const char* command :
       {"train", "test", "sample", "compare", "bench", "checkpoint", "plan",
        "certs", "server", "worker", "devices", "install", "package"}) {
    EXPECT_FALSE(CommandLinesOf(command).empty()) << command;
  }
}

TEST(ReadmeTest, EveryFlagIsOneOfItsCommand) {
  for (const Words& words : CommandLines()) {
    if (words[0] == "--help") continue;
    SCOPED_TRACE(absl::StrJoin(words, " "));
    const std::string help = HelpOn(words);
    for (const std::string& word : words) {
      if (!absl::StartsWith(word, "--")) continue;
      EXPECT_THAT(help, HasSubstr(word));
    }
  }
}

TEST(ReadmeTest, EveryJobIsValid) {
  for (const Words& words : CommandLines()) {
    SCOPED_TRACE(absl::StrJoin(words, " "));
    // The shell would join quoted words, and they are for a job of the
    // reader's.
    if (absl::StrContains(absl::StrJoin(words, " "), "'")) continue;
    Words arguments = words;
    if (words[0] != "train") {
      if (words.size() < 2 || !absl::StartsWith(words[1], "examples/"))
        continue;
      if (words[0] == "tune") continue;  // Its file is no job.
      arguments = {"train", words[1]};
    } else if (absl::StrContains(absl::StrJoin(words, " "), "--resume runs/")) {
      continue;  // The run is the user's own.
    }
    // `tributary tune best` writes it.
    if (words.size() > 1 && words[1] == "best.textproto") continue;
    arguments.push_back("--print-config");
    const CommandResult result = RunTributary(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  }
}

TEST(ReadmeTest, PlansRunAsPrinted) {
  for (const Words& words : CommandLinesOf("plan")) {
    SCOPED_TRACE(absl::StrJoin(words, " "));
    const CommandResult result = RunTributary(words);
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    EXPECT_EQ(result.standard_error, "");
    EXPECT_THAT(result.standard_output, HasSubstr("bottleneck"));
  }
}

}  // namespace
}  // namespace tributary
