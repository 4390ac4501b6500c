// `tributary runs`.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/json.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/exit_code.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/deploy/tools/runs/run_files.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class RunsCommandTest : public RunFilesTest {
 protected:
  RunsCommandTest() {
    WriteJob("one", "0.1", 1000);
    Write("one/summary.json",
          R"({"status":"done","steps":9,"final_loss":0.5,"seconds":61})");
    WriteJob("two", "0.2", 2000);
    Write("two/metrics.jsonl", "{\"step\":3,\"loss\":0.75}\n");
  }

  int Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), root_);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = RunRunsCommand(
        arguments, [](const std::string&) { return absl::nullopt; });
    output_ = testing::internal::GetCapturedStdout();
    errors_ = testing::internal::GetCapturedStderr();
    return code;
  }

  std::string output_;
  std::string errors_;
};

TEST_F(RunsCommandTest, ListsRunsWithTheFieldsThatDiffer) {
  EXPECT_EQ(Run({}), kExitDone) << errors_;
  EXPECT_THAT(output_, StartsWith("run  began "));
  EXPECT_THAT(output_, HasSubstr(" learning_rate\ntwo  1970-"));
  EXPECT_THAT(output_, HasSubstr("  0.2\none  1970-"));
  EXPECT_EQ(Run({"--sort", "loss", "--limit", "1"}), kExitDone);
  EXPECT_THAT(output_, HasSubstr("\none "));
  EXPECT_THAT(output_, Not(HasSubstr("\ntwo ")));
  EXPECT_EQ(Run({"--fields", "model.mlp.hidden[0],steps"}), kExitDone);
  EXPECT_THAT(output_, HasSubstr(" hidden[0]  steps\n"));
}

TEST_F(RunsCommandTest, SelectsRuns) {
  EXPECT_EQ(Run({"--state", "unfinished"}), kExitDone);
  EXPECT_THAT(output_, HasSubstr("\ntwo "));
  EXPECT_THAT(output_, Not(HasSubstr("\none ")));
  EXPECT_EQ(Run({"--where", "learning_rate=0.10"}), kExitDone);
  EXPECT_THAT(output_, HasSubstr("\none "));
  EXPECT_THAT(output_, Not(HasSubstr("\ntwo ")));
  EXPECT_EQ(Run({"--name", "three"}), kExitDone);
  EXPECT_EQ(output_, absl::StrCat("no such runs in ", root_, "\n"));
}

TEST_F(RunsCommandTest, WritesJson) {
  EXPECT_EQ(Run({"--json", "--sort", "name"}), kExitDone);
  const auto json = ParseOrderedJson(output_);
  ASSERT_EQ(json["runs"].size(), 2u) << output_;
  EXPECT_EQ(json["runs"][0]["name"], "one");
  EXPECT_EQ(json["runs"][0]["state"], "done");
  EXPECT_EQ(json["runs"][0]["job"]["optimizer.sgd.learning_rate"], "0.1");
  EXPECT_EQ(json["runs"][1]["loss"], 0.75);
  EXPECT_EQ(json["differing_fields"][0], "optimizer.sgd.learning_rate");
}

TEST_F(RunsCommandTest, SaysWhyAServerIsNotAsked) {
  Write("two/server.json", "{\"address\":\"192.0.2.1:80\"}");
  EXPECT_EQ(Run({}), kExitDone);
  EXPECT_THAT(output_, HasSubstr("\none "));
  EXPECT_THAT(errors_, StartsWith("warning: "));
  EXPECT_THAT(errors_, HasSubstr("two/server.json names 192.0.2.1:80"));
}

TEST_F(RunsCommandTest, RefusesWrongArguments) {
  EXPECT_EQ(Run({"--where", "x"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("'x' is not FIELD=VALUE"));
  EXPECT_EQ(Run({root_ + "/none"}), kExitUsage);
  EXPECT_THAT(errors_, HasSubstr("/none is not a folder"));
  EXPECT_EQ(Run({"--sort", "color"}), kExitUsage);
}

}  // namespace
}  // namespace tributary
