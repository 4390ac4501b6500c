#include "deploy/tools/dashboard/study_view.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/types/optional.h"
#include "deploy/tools/dashboard/run_list.h"
#include "deploy/tools/dashboard/run_view.h"
#include "deploy/tools/tune/journal/journal_lines.h"
#include "deploy/tools/tune/journal/study_attributes.h"
#include "deploy/tools/tune/search/parameter_importance.h"
#include "deploy/tools/tune/search/search_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace fs = std::filesystem;

constexpr char kSearch[] = R"(
  name: "s"
  parameter { path: "lr" number { low: 1e-4 high: 1e-1 log: true } }
  parameter { path: "rule" choice { value: "sgd" value: "adam" } }
  parameter { path: "momentum" number { low: 0 high: 1 }
              when { path: "rule" value: "sgd" } }
  objective { metric: "evaluation.loss" goal: MINIMIZE }
  budget { trials: 9 }
)";
constexpr char kSeveral[] = R"(
  name: "s"
  parameter { path: "x" integer { low: 1 high: 9 } }
  objective { metric: "evaluation.accuracy" goal: MAXIMIZE }
  objective { metric: "parameters" goal: MINIMIZE }
  constraint { metric: "seconds" max: 1 }
  budget { trials: 9 }
)";

class StudyViewTest : public testing::Test {
 protected:
  StudyViewTest()
      : folder_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  void Append(const std::string& line) {
    std::ofstream(folder_ / "study.journal", std::ios::app | std::ios::binary)
        << line << "\n";
  }
  // Begins a study with this search file.
  void Begin(const std::string& search) {
    Write("search.textproto", search);
    space_.emplace(*ParseSearch(search, "search"));
    std::vector<bool> maximize;
    const SearchSpec spec = *ParseSearch(search, "search");
    for (const ObjectiveSpec& objective : spec.objective()) {
      maximize.push_back(objective.goal() == ObjectiveSpec::MAXIMIZE);
    }
    Append(CreateStudyLine("w", "s", maximize));
  }
  int64_t Add(const SearchPoint& point) {
    Append(CreateTrialLine("w", 0, JournalState::kRunning, *space_, point,
                           Json::object(), absl::Now()));
    return trials_++;
  }
  void Rung(int64_t trial, int64_t step, double value) {
    Append(IntermediateValueLine("w", trial, step, value));
  }
  void End(int64_t trial, JournalState state, std::vector<double> values = {}) {
    Append(StateLine("w", trial, state, values, absl::Now()));
  }
  StudyView View() const {
    return StudyView(UntrustedFolder(folder_.string()), /*named=*/true);
  }

  const fs::path folder_;
  absl::optional<SearchSpace> space_;
  int64_t trials_ = 0;
};

TEST_F(StudyViewTest, DescribesTrialsOfEachState) {
  Begin(kSearch);
  const int64_t complete = Add({0.01, 1.0, absl::nullopt});
  Rung(complete, 10, 3);
  Rung(complete, 30, 2);
  End(complete, JournalState::kComplete, {2});
  const int64_t stopped = Add({0.001, 0.0, 0.5});
  Rung(stopped, 10, 4);
  End(stopped, JournalState::kPruned, {4});
  const int64_t failed = Add({0.1, 0.0, 0.25});
  Append(UserAttributeLine("w", failed, {{kFailure, "no <memory>"}}));
  End(failed, JournalState::kFailed);
  Add({0.002, 1.0, absl::nullopt});
  StudyView view = View();
  const Json details = view.Details();
  EXPECT_EQ(details["key"], view.key());
  EXPECT_EQ(details["name"], "s");
  EXPECT_EQ(details["named"], true);
  const auto age = [this] {
    fs::last_write_time(
        folder_ / "study.journal",
        fs::file_time_type::clock::now() - std::chrono::hours(1));
  };
  age();
  EXPECT_EQ(View().Overview()["live"], true) << "a trial is running";
  End(3, JournalState::kFailed);
  EXPECT_EQ(View().Overview()["live"], true) << "just now";
  age();
  EXPECT_EQ(View().Overview()["live"], false);
  EXPECT_EQ(details["problem"], "");
  EXPECT_EQ(
      details["objectives"],
      Json::parse(R"([{"metric": "evaluation.loss", "maximize": false}])"));
  EXPECT_EQ(details["parameters"], Json::parse(R"([
    {"path": "lr", "kind": "number", "low": 1e-4, "high": 0.1, "log": true},
    {"path": "rule", "kind": "choice", "choices": ["sgd", "adam"]},
    {"path": "momentum", "kind": "number", "low": 0.0, "high": 1.0,
     "log": false}])"));
  ASSERT_THAT(details["trials"], SizeIs(4));
  const std::string run = RunKeyOf((folder_ / "trials/00000").string());
  EXPECT_EQ(details["trials"][0], Json::parse(absl::StrCat(R"({
    "number": 0, "state": "complete", "values": [2.0], "steps": [10, 30],
    "results": [3.0, 2.0], "point": [0.01, 1.0, null], "violated": false,
    "failure": "", "run": ")",
                                                           run, R"("})")));
  EXPECT_EQ(details["trials"][1]["state"], "pruned");
  EXPECT_EQ(details["trials"][1]["values"], Json::array());
  EXPECT_EQ(details["trials"][1]["results"], Json::array({4.0}));
  EXPECT_EQ(details["trials"][2]["state"], "failed");
  EXPECT_EQ(details["trials"][2]["failure"], "no <memory>");
  EXPECT_EQ(details["trials"][3]["state"], "running");
  EXPECT_EQ(details["best"], Json::array({0}));
}

TEST_F(StudyViewTest, ReadsWhatIsAppended) {
  Begin(kSearch);
  StudyView view = View();
  EXPECT_EQ(view.Overview()["trials"], 0);
  Add({0.01, 1.0, absl::nullopt});
  // A writer is in the middle of a line.
  std::ofstream(folder_ / "study.journal", std::ios::app) << "{\"op_code\"";
  const int64_t lines = view.Overview()["lines"];
  EXPECT_EQ(view.Overview()["trials"], 1);
  EXPECT_EQ(lines, 2);
  EXPECT_EQ(view.Overview()["problem"], "");
  EXPECT_EQ(view.Overview()["live"], true);
  // The study begins anew.
  fs::remove(folder_ / "study.journal");
  trials_ = 0;
  Begin(kSearch);
  EXPECT_EQ(view.Overview()["trials"], 0);
}

TEST_F(StudyViewTest, FindsTheParetoFrontOfTrialsThatSatisfyTheConstraints) {
  Begin(kSeveral);
  const std::vector<std::vector<double>> values = {
      {0.5, 10}, {0.9, 100}, {0.4, 20}, {0.5, 10}, {0.95, 90}, {0.99, 1}};
  for (const std::vector<double>& each : values) {
    const int64_t trial = Add({1.0});
    Append(SystemAttributeLine(
        "w", trial,
        {{absl::StrCat(kConstraintPrefix, "seconds"), each[1] == 1 ? 1 : -1}}));
    End(trial, JournalState::kComplete, each);
  }
  const int64_t nan = Add({1.0});
  End(nan, JournalState::kComplete,
      {1, std::numeric_limits<double>::quiet_NaN()});
  const Json details = View().Details();
  // Equal trials are all on the front.
  EXPECT_EQ(details["best"], Json::array({0, 3, 4}));
  EXPECT_EQ(details["trials"][5]["violated"], true);
  EXPECT_EQ(details["trials"][6]["values"], Json::array());
  ASSERT_THAT(details["importance"], SizeIs(2));
  EXPECT_EQ(details["importance"][0]["steps"], nullptr);
  EXPECT_EQ(details["importance"][0]["trials"], 6);
}

TEST_F(StudyViewTest, ShowsTheFinalEvaluation) {
  Begin(absl::StrCat(kSearch, "final { best: 2 seeds: 3 }"));
  for (const double loss : {3.0, 1.0, 2.0}) {
    const int64_t trial = Add({0.01, 1.0, absl::nullopt});
    Append(UserAttributeLine("w", trial, {{kWeightsDigest, "abc"}}));
    End(trial, JournalState::kComplete, {loss});
  }
  const auto set = [this](const std::string& name, const Json& value) {
    Json attribute = Json::object();
    attribute[name] = value;
    Append(StudyAttributeLine("w", 0, attribute));
  };
  EXPECT_EQ(View().Details()["final"], nullptr);
  EXPECT_EQ(View().Details()["best"], Json::array({1}));
  set(kFinalTrials, {{"trials", {1, 2}}});
  set(FinalRunName(1, 1),
      {{"values", Json::array({7.0})}, {"violations", Json::array()}});
  set(FinalRunName(1, 2), {{kTuner, "another"}});
  EXPECT_EQ(View().Details()["final"],
            Json::parse(R"({"done": false, "trials": [
    {"trial": 2, "values": [2.0, null, null], "failed": 0, "ended": 1,
     "mean": 2.0, "deviation": null},
    {"trial": 1, "values": [1.0, 7.0, null], "failed": 0, "ended": 2,
     "mean": 4.0, "deviation": 4.242640687119285}]})"));
  set(FinalRunName(1, 2), {{kFailure, "out of memory"}});
  set(FinalRunName(2, 1),
      {{"values", Json::array({8.0})}, {"violations", Json::array()}});
  set(FinalRunName(2, 2),
      {{"values", Json::array({5.0})}, {"violations", Json::array()}});
  const Json details = View().Details();
  EXPECT_EQ(details["final"], Json::parse(R"({"done": true, "trials": [
    {"trial": 2, "values": [2.0, 8.0, 5.0], "failed": 0, "ended": 3,
     "mean": 5.0, "deviation": 3.0},
    {"trial": 1, "values": [1.0, 7.0, null], "failed": 1, "ended": 3,
     "mean": 4.0, "deviation": 4.242640687119285}]})"));
  // Its winner is the best trial.
  EXPECT_EQ(details["best"], Json::array({2}));
  // Records of trials that do not exist have no effect.
  set(kFinalTrials, {{"trials", {1, -1, 99, "x"}}});
  set("tributary:final:1:99", {{"values", Json::array({0.0})}});
  EXPECT_THAT(View().Details()["final"]["trials"], SizeIs(1));
}

TEST_F(StudyViewTest, ComparesTrialsAfterTheMostStepsThatEnoughHaveReached) {
  Begin(kSearch);
  std::vector<ScoredPoint> expected;
  for (int i = 0; i < 40; ++i) {
    const SearchPoint point = {1e-4 + 1e-3 * i, 1.0, absl::nullopt};
    const int64_t trial = Add(point);
    Rung(trial, 10, 100 - i);
    if (i % 2 == 0) continue;
    Rung(trial, 30, i);
    expected.push_back({point, static_cast<double>(i)});
    if (i % 10 == 1) {
      Rung(trial, 90, 1);
      End(trial, JournalState::kComplete, {1});
    }
  }
  const Json found = View().Details()["importance"][0];
  EXPECT_EQ(found["steps"], 30);
  EXPECT_EQ(found["trials"], 20);
  EXPECT_EQ(found["values"].get<std::vector<double>>(),
            ParameterImportances(*space_, expected));
}

// Optuna's own trials may have other parameters.
TEST_F(StudyViewTest, ShowsTrialsOfOtherSpacesWithoutValues) {
  Begin(kSearch);
  const SearchSpec other = *ParseSearch(
      "parameter { path: \"lr\" number { low: 1 high: 9 } }"
      "parameter { path: \"rule\" choice { value: \"adam\" value: \"sgd\" } }",
      "other");
  space_.emplace(other);
  Add({2.0, 0.0});
  space_.emplace(*ParseSearch(
      "parameter { path: \"lr\" number { low: 1e-4 high: 1e-1 log: true } }"
      "parameter { path: \"rule\" choice { value: \"adam\" value: \"sgd\" } }",
      "other"));
  Add({0.01, 0.0});
  const Json details = View().Details();
  ASSERT_THAT(details["trials"], SizeIs(2));
  for (const Json& trial : details["trials"]) {
    EXPECT_EQ(trial["point"], nullptr);
  }
  EXPECT_EQ(details["importance"], Json::array({nullptr}));
}

// The folder may be another user's.
TEST_F(StudyViewTest, SaysWhatCannotBeRead) {
  Begin(kSearch);
  Append("{\"op_code\": 99}");
  EXPECT_THAT(View().Details()["problem"].get<std::string>(),
              HasSubstr("study.journal:2 "));
  Write("study.journal", "");
  fs::resize_file(folder_ / "study.journal", StudyView::kMaxJournalBytes + 1);
  EXPECT_THAT(View().Details()["problem"].get<std::string>(),
              HasSubstr("study.journal"));
  Write("search.textproto", "parameter { path: \"lr\" }");
  const Json details = View().Details();
  EXPECT_THAT(details["problem"].get<std::string>(), HasSubstr("lr"));
  EXPECT_THAT(details["trials"], IsEmpty());
  fs::remove(folder_ / "study.journal");
  fs::create_symlink("/etc/passwd", folder_ / "study.journal");
  EXPECT_FALSE(StudyView::IsStudy(UntrustedFolder(folder_.string())));
}

TEST_F(StudyViewTest, TheListFindsStudiesAndTheRunsOfNamedOnes) {
  Begin(kSearch);
  Write("trials/00000/metrics.jsonl", "{\"step\":1,\"loss\":1}\n");
  RunList named{RunAddressRules()};
  ASSERT_TRUE(named.AddPath(folder_.string()).ok());
  ASSERT_THAT(named.studies(), SizeIs(1));
  EXPECT_EQ(named.studies()[0]->Overview()["named"], true);
  ASSERT_THAT(named.runs(), SizeIs(1));
  EXPECT_EQ(named.runs()[0]->key(),
            RunKeyOf((folder_ / "trials/00000").string()));
  Write("trials/00001/metrics.jsonl", "");
  named.Refresh();
  EXPECT_THAT(named.runs(), SizeIs(2));

  // The dashboard may begin before the search.
  fs::rename(folder_ / "search.textproto", folder_ / "later");
  RunList early{RunAddressRules()};
  ASSERT_TRUE(early.AddPath(folder_.string()).ok());
  EXPECT_THAT(early.studies(), IsEmpty());
  fs::rename(folder_ / "later", folder_ / "search.textproto");
  early.Refresh();
  ASSERT_THAT(early.studies(), SizeIs(1));
  EXPECT_EQ(early.studies()[0]->Overview()["named"], true);
  EXPECT_THAT(early.runs(), SizeIs(2));

  RunList parent{RunAddressRules()};
  const fs::path runs = folder_ / "runs";
  fs::create_directories(runs);
  ASSERT_TRUE(parent.AddPath(runs.string()).ok());
  EXPECT_THAT(parent.studies(), IsEmpty());
  fs::create_directories(runs / "later");
  for (const char* const name : {"search.textproto", "study.journal"}) {
    fs::copy(folder_ / name, runs / "later" / name);
  }
  // A link may lead to the folder of another user.
  fs::create_directory_symlink(folder_, runs / "link");
  parent.Refresh();
  parent.Refresh();
  ASSERT_THAT(parent.studies(), SizeIs(1));
  EXPECT_EQ(parent.studies()[0]->Overview()["named"], false);
  EXPECT_THAT(parent.runs(), IsEmpty());
}

}  // namespace
}  // namespace tributary
