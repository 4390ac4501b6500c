#include "deploy/tools/runs/run_listing.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "deploy/tools/runs/run_table.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "tests/deploy/tools/runs/run_files.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class RunListingTest : public RunFilesTest {
 protected:
  void SetUp() override {
    WriteJob("old", "0.1", 1000);
    Write("old/summary.json",
          R"({"status":"done","steps":9,"final_loss":0.5,"seconds":61,
              "evaluation":{"loss":0.25}})");
    WriteJob("new", "0.01", 3000);
    Write("new/summary.json",
          R"({"status":"failed","steps":4,"final_loss":0.75,"seconds":30})");
    WriteJob("cut", "0.01", 2000);
    Write("cut/metrics.jsonl", "{\"step\":7,\"loss\":0.25}\n");
  }

  std::vector<RunEntry> List() {
    RunFolders folders;
    EXPECT_TRUE(folders.Add(root_).ok());
    return ListRuns(&folders, std::make_shared<RunAddressRules>(),
                    absl::Seconds(10));
  }
  static std::vector<std::string> NamesOf(const std::vector<RunEntry>& runs) {
    std::vector<std::string> names;
    for (const RunEntry& run : runs) names.push_back(run.name);
    return names;
  }
};

TEST_F(RunListingTest, SortsRuns) {
  std::vector<RunEntry> runs = List();
  const auto sorted = [&](const std::string& order) {
    SortRuns(order, &runs);
    return NamesOf(runs);
  };
  EXPECT_THAT(sorted("date"), ElementsAre("new", "cut", "old"));
  EXPECT_THAT(sorted("name"), ElementsAre("cut", "new", "old"));
  EXPECT_THAT(sorted("loss"), ElementsAre("cut", "old", "new"));
  EXPECT_THAT(sorted("steps"), ElementsAre("old", "cut", "new"));
  EXPECT_THAT(sorted("time"), ElementsAre("old", "new", "cut"));
  // Two runs were not evaluated.
  EXPECT_THAT(sorted("evaluation"), ElementsAre("old", "new", "cut"));
  runs[2].live = true;
  EXPECT_THAT(sorted("date"), ElementsAre("cut", "new", "old"));
  runs[2].evaluation_accuracy = 0.5;
  runs[1].evaluation_accuracy = 0.75;
  EXPECT_THAT(sorted("accuracy"), ElementsAre("new", "old", "cut"));
}

TEST_F(RunListingTest, SelectsRuns) {
  const auto selected = [&](const RunConditions& conditions) {
    std::vector<RunEntry> runs = List();
    SelectRuns(conditions, &runs);
    SortRuns("name", &runs);
    return NamesOf(runs);
  };
  RunConditions conditions;
  EXPECT_THAT(selected(conditions), ElementsAre("cut", "new", "old"));
  conditions.state = "failed";
  EXPECT_THAT(selected(conditions), ElementsAre("new"));
  conditions.state = kNoAnswer;
  EXPECT_THAT(selected(conditions), ElementsAre("cut"));
  conditions.state = "running";
  EXPECT_THAT(selected(conditions), ElementsAre());
  conditions = RunConditions();
  conditions.name = "e";
  EXPECT_THAT(selected(conditions), ElementsAre("new"));
  for (const char* text :
       {"learning_rate=0.01", "optimizer.sgd.learning_rate=1e-2"}) {
    conditions = RunConditions();
    conditions.fields.push_back(*ParseFieldCondition(text));
    EXPECT_THAT(selected(conditions), ElementsAre("cut", "new")) << text;
  }
  for (const char* text : {"rate=0.01", "learning_rate=x", "learning_rate="}) {
    conditions = RunConditions();
    conditions.fields.push_back(*ParseFieldCondition(text));
    EXPECT_THAT(selected(conditions), ElementsAre()) << text;
  }
  conditions = RunConditions();
  conditions.fields.push_back({"name", "x"});
  EXPECT_EQ(selected(conditions).size(), 3u) << "without quotation marks";
  EXPECT_THAT(ParseFieldCondition("x").status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'x' is not FIELD=VALUE")));
}

TEST_F(RunListingTest, NamesTheFieldsThatDiffer) {
  std::vector<RunEntry> runs = List();
  EXPECT_THAT(DifferingFields(runs),
              ElementsAre("optimizer.sgd.learning_rate"));
  // A field that only some runs set, and fields that always differ.
  runs[0].fields.emplace_back("seed", "7");
  runs[1].fields.emplace_back("output.directory", "\"b\"");
  RunEntry without_job;
  runs.push_back(without_job);
  EXPECT_THAT(DifferingFields(runs),
              ElementsAre("optimizer.sgd.learning_rate", "seed"));
  EXPECT_THAT(DifferingFields({}), ElementsAre());
}

TEST_F(RunListingTest, FormatsATable) {
  std::vector<RunEntry> runs = List();
  SortRuns("loss", &runs);
  const std::string began =
      absl::FormatTime("%Y-%m-%d %H:%M", runs[1].began, absl::LocalTimeZone());
  const std::string table = FormatRuns(runs, DifferingFields(runs), 0);
  EXPECT_THAT(table, StartsWith("run  began             state      step"));
  EXPECT_THAT(table, Not(HasSubstr("accuracy"))) << "no run has one";
  EXPECT_THAT(table,
              HasSubstr(absl::StrCat(
                  "old  ", began,
                  "  done        9/9  0.5000      0.2500  1:01            0.1"
                  "\n")));
  EXPECT_THAT(table, HasSubstr("no answer"));
}

TEST_F(RunListingTest, LeavesOutFieldsThatDoNotFit) {
  const std::vector<RunEntry> runs = List();
  const std::string table = FormatRuns(runs, DifferingFields(runs), 78);
  EXPECT_THAT(table, Not(HasSubstr("learning_rate")));
  EXPECT_THAT(table, HasSubstr("1 further field"));
}

TEST_F(RunListingTest, EscapesNamesForTheTerminal) {
  WriteJob("e\x1b[2J\n\xc3\xa9", "0.1", 4000);
  const std::vector<RunEntry> runs = List();
  const std::string table = FormatRuns(runs, {}, 0);
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(table, HasSubstr("e\\x1b[2J\\n\xc3\xa9  1970"));
}

TEST_F(RunListingTest, WritesNumbersThatAreNotKnownAsNull) {
  std::vector<RunEntry> runs = List();
  SortRuns("name", &runs);
  const nlohmann::ordered_json cut = EntryJson(runs[0]);
  EXPECT_EQ(cut["name"], "cut");
  EXPECT_EQ(cut["step"], 7);
  EXPECT_EQ(cut["steps"], 9);
  EXPECT_EQ(cut["loss"], 0.25);
  EXPECT_EQ(cut["evaluation_loss"], nullptr);
  EXPECT_EQ(cut["began"], 2000);
  EXPECT_EQ(cut["state"], "no answer");
}

}  // namespace
}  // namespace tributary
