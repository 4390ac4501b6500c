#include "deploy/tools/dashboard/dashboard.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/json.h"
#include "deploy/tools/dashboard/run_list.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::Contains;

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

namespace fs = std::filesystem;

class DashboardTest : public testing::Test {
 protected:
  DashboardTest()
      : folder_(fs::path(testing::TempDir()) /
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << text;
  }
  // A run with a line for each of `steps` steps, whose losses are 1 / step.
  void WriteRun(const std::string& name, int steps) {
    Write(absl::StrCat(name, "/job.textproto"),
          "name: \"x\" model { mlp { hidden: 8 } } data { random { shape: 4 } "
          "} batch { global: 8 } optimizer { sgd { learning_rate: 0.1 } } "
          "steps: 9");
    std::string lines;
    for (int step = 1; step <= steps; ++step) {
      absl::StrAppend(&lines, "{\"step\":", step,
                      ",\"loss\":", absl::StrFormat("%.17g", 1.0 / step),
                      ",\"workers\":[{\"rank\":0,\"forward_ms\":1.5}]}\n");
    }
    absl::StrAppend(
        &lines,
        "{\"step\":5,\"evaluation_loss\":0.25,\"evaluation_accuracy\":0.5}\n");
    Write(absl::StrCat(name, "/metrics.jsonl"), lines);
  }

  void Make(std::vector<std::string> tokens = {}) {
    RunList runs{RunAddressRules()};
    ASSERT_EQ(runs.AddPath(folder_.string()), absl::OkStatus());
    Dashboard::Options options;
    options.release = "1.2.3";
    if (!tokens.empty()) options.tokens = [tokens] { return tokens; };
    dashboard_ = std::make_unique<Dashboard>(std::move(runs), options);
  }
  HttpResponse Get(const std::string& path, const std::string& query = "",
                   const std::string& authorization = "",
                   const std::string& host = "127.0.0.1:29480") {
    HttpRequest request;
    request.path = path;
    request.query = query;
    request.authorization = authorization;
    request.host = host;
    return dashboard_->Handle(request);
  }
  nlohmann::ordered_json GetJson(const std::string& path,
                                 const std::string& query = "") {
    const HttpResponse response = Get(path, query);
    EXPECT_EQ(response.code, 200) << response.body;
    EXPECT_EQ(response.content_type, "application/json");
    return ParseOrderedJson(response.body);
  }

  const fs::path folder_;
  std::unique_ptr<Dashboard> dashboard_;
};

TEST_F(DashboardTest, ListsTheRunsOfAFolderAlsoThoseThatBeginLater) {
  WriteRun("b", 3);
  WriteRun("a", 2);
  Write("a/events.jsonl", "{\"time\":1000}\n");
  Write("b/events.jsonl", "{\"time\":2000}\n");
  Write("no-run/file", "");
  Make();
  auto runs = GetJson("/api/runs");
  EXPECT_EQ(runs["release"], "1.2.3");
  ASSERT_EQ(runs["runs"].size(), 2);
  EXPECT_EQ(runs["runs"][0]["name"], "b") << "it began last";
  EXPECT_EQ(runs["runs"][0]["id"], 1);
  EXPECT_EQ(runs["runs"][0]["step"], 5);
  EXPECT_EQ(runs["runs"][0]["lines"], 0) << "nobody has asked for its curves";
  EXPECT_EQ(runs["runs"][1]["name"], "a");
  EXPECT_EQ(runs["runs"][1]["id"], 0);
  EXPECT_EQ(runs["runs"][1]["state"], "no answer");
  EXPECT_EQ(GetJson("/api/series", "run=1")["lines"], 4);
  EXPECT_EQ(GetJson("/api/runs")["runs"][0]["lines"], 4);
  WriteRun("0", 1);
  Write("0/summary.json", R"({"status":"done","steps":9,"unit":"rows"})");
  runs = GetJson("/api/runs");
  ASSERT_EQ(runs["runs"].size(), 3);
  EXPECT_EQ(runs["runs"][0]["name"], "0");
  EXPECT_EQ(runs["runs"][0]["id"], 2) << "the others keep their numbers";
  EXPECT_EQ(runs["runs"][0]["state"], "done");
  EXPECT_EQ(runs["runs"][0]["step"], 9);
}

TEST_F(DashboardTest, FindsARunByAKeyThatOtherRunsDoNotChange) {
  WriteRun("b", 3);
  Make();
  const std::string key = GetJson("/api/runs")["runs"][0]["key"];
  EXPECT_THAT(key, testing::MatchesRegex("b-[0-9a-f]{12}"));
  // With another dashboard, and a run that gets the number of this one.
  WriteRun("a", 1);
  WriteRun("c <script>", 2);
  Make();
  const auto listed = GetJson("/api/runs");
  for (const auto& run : listed["runs"]) {
    if (run["name"] == "b") {
      EXPECT_EQ(run["key"], key);
    }
    if (run["name"] == "c <script>") {
      EXPECT_THAT(run["key"].get<std::string>(),
                  testing::MatchesRegex("c--script--[0-9a-f]{12}"));
    }
  }
  EXPECT_EQ(GetJson("/api/series", absl::StrCat("run=", key))["lines"], 4);
  EXPECT_EQ(Get("/api/series", "run=b-000000000000").code, 404);
}

TEST_F(DashboardTest, SendsWhatProcessesUseFromTheLinesThatHaveIt) {
  WriteRun("a", 0);
  Write("a/metrics.jsonl",
        "{\"step\":1,\"loss\":1,\"seconds\":0.5,\"workers\":[]}\n"
        "{\"step\":2,\"loss\":1,\"seconds\":1.5,\"resources_count\":1,"
        "\"workers\":[],\"resources\":[{\"role\":\"worker\",\"number\":0,"
        "\"cpus\":1.5}]}\n"
        "{\"step\":3,\"resources_count\":1,\"resources\":7}\n");
  Make();
  const auto answer = GetJson("/api/resources", "run=0");
  EXPECT_EQ(answer["total"], 2);
  ASSERT_EQ(answer["lines"].size(), 1);
  EXPECT_EQ(answer["lines"][0], nlohmann::ordered_json::parse(
                                    R"({"step": 2, "seconds": 1.5,
      "resources": [{"role": "worker", "number": 0, "cpus": 1.5}]})"));
}

TEST_F(DashboardTest, SendsAllMetricsAsCommaSeparatedValues) {
  WriteRun("a", 2);
  Make();
  const HttpResponse response = Get("/api/metrics.csv", "run=0");
  EXPECT_EQ(response.content_type, "text/csv; charset=utf-8");
  EXPECT_THAT(response.headers,
              Contains(Pair("Content-Disposition",
                            testing::MatchesRegex(
                                "attachment; filename=\"a-[0-9a-f]+.csv\""))));
  EXPECT_EQ(response.body,
            "step,epoch,loss,learning_rate,gradient_norm,samples_per_second,"
            "step_seconds,seconds,evaluation_loss,evaluation_accuracy\r\n"
            "1,,1,,,,,,,\r\n2,,0.5,,,,,,,\r\n5,,,,,,,,0.25,0.5\r\n");
}

TEST_F(DashboardTest, SendsTheMetricsThatProgramsHaveNamed) {
  Write("a/metrics.jsonl",
        "{\"step\":1,\"loss\":1}\n{\"step\":1,\"evaluation_loss\":4,"
        "\"evaluation_f1\":0.25}\n"
        "{\"step\":2,\"evaluation_loss\":3,\"evaluation_recall\":0.5}\n");
  Make();
  EXPECT_EQ(GetJson("/api/series", "run=0")["evaluation"]["metrics"],
            nlohmann::ordered_json::parse(
                R"({"f1": [0.25, null], "recall": [null, 0.5]})"));
  EXPECT_THAT(Get("/api/metrics.csv", "run=0").body,
              HasSubstr(",evaluation_f1,evaluation_recall\r\n1,,1,,,,,,,,,\r\n"
                        "1,,,,,,,,4,,0.25,\r\n2,,,,,,,,3,,,0.5\r\n"));
}

TEST_F(DashboardTest, SendsTheFieldsInWhichJobsDiffer) {
  WriteRun("a", 1);
  WriteRun("b", 1);
  Write("b/job.textproto",
        "name: \"y\" model { mlp { hidden: 8 } } data { random { shape: 4 } } "
        "batch { global: 8 } optimizer { sgd { learning_rate: 0.2 } } "
        "steps: 9");
  Make();
  const auto answer = GetJson("/api/fields");
  EXPECT_EQ(answer["fields"], nlohmann::ordered_json::parse(
                                  R"(["optimizer.sgd.learning_rate"])"));
  std::vector<std::string> values;
  const auto listed = GetJson("/api/runs");
  for (const auto& run : listed["runs"]) {
    const auto fields = answer["runs"][run["key"].get<std::string>()];
    values.push_back(fields["optimizer.sgd.learning_rate"]);
  }
  EXPECT_THAT(values, testing::UnorderedElementsAre("0.1", "0.2"));
}

TEST_F(DashboardTest, GroupsLinesAndKeepsTheirValues) {
  WriteRun("a", 7);
  Make();
  auto series = GetJson("/api/series", "run=0");
  EXPECT_EQ(series["grouped"], false);
  EXPECT_EQ(series["step"].size(), 7);
  EXPECT_EQ(series["fields"]["loss"]["mean"][2], 1.0 / 3);
  EXPECT_EQ(series["fields"]["gradient_norm"]["mean"][2], nullptr);
  EXPECT_EQ(series["evaluation"]["loss"][0], 0.25);
  series = GetJson("/api/series", "run=0&from=2&to=6&points=2");
  EXPECT_EQ(series["grouped"], true);
  EXPECT_EQ(series["first_step"], 1);
  EXPECT_EQ(series["newest"]["loss"], 1.0 / 6);
  EXPECT_EQ(series["step"], nlohmann::ordered_json::array({3, 6}));
  EXPECT_EQ(series["fields"]["loss"]["min"],
            nlohmann::ordered_json::array({1.0 / 3, 1.0 / 6}));
  EXPECT_EQ(series["fields"]["loss"]["max"],
            nlohmann::ordered_json::array({1.0 / 2, 1.0 / 4}));
  EXPECT_EQ(series["fields"]["loss"]["mean"][0], (1.0 / 2 + 1.0 / 3) / 2);
}

TEST_F(DashboardTest, ReturnsLinesAsTheyAre) {
  WriteRun("a", 7);
  Make();
  const auto lines = GetJson("/api/lines", "run=0&count=2");
  EXPECT_EQ(lines["total"], 7);
  ASSERT_EQ(lines["lines"].size(), 2);
  EXPECT_EQ(lines["lines"][0]["step"], 3);
  EXPECT_EQ(lines["lines"][1]["step"], 7) << "the last one is included";
  EXPECT_EQ(lines["lines"][1]["workers"][0]["forward_ms"], 1.5);
}

TEST_F(DashboardTest, ShowsJobLogSampleAndSummary) {
  WriteRun("a", 1);
  Write("a/logs/server-0.log",
        "2026-01-01T00:00:00Z info server 0: one\n"
        "{\"ts\":\"2026-01-01T00:00:01Z\",\"level\":\"warning\",\"msg\":"
        "\"two\"}\nodd\n");
  Write("a/logs/worker-0.log", "2026-01-01T00:00:02Z info worker 0: three\n");
  Write("a/sample.txt", "text");
  Write("a/summary.json",
        R"({"status":"done","steps":9,"workers":2,"servers":1,
            "parameters":100,"processes":[]})");
  Make();
  const auto job = GetJson("/api/job", "run=0");
  EXPECT_THAT(job["text"].get<std::string>(), HasSubstr("hidden: 8"));
  EXPECT_THAT(job["fields"], Contains(nlohmann::ordered_json::array(
                                 {"optimizer.sgd.learning_rate", "0.1"})));
  const auto log = GetJson("/api/log", "run=0&count=2");
  ASSERT_EQ(log["entries"].size(), 2);
  EXPECT_EQ(log["entries"][0]["level"], "warning");
  EXPECT_EQ(log["entries"][0]["message"], "two");
  EXPECT_EQ(log["entries"][1]["message"], "odd");
  EXPECT_EQ(log["logs"].size(), 2);
  const auto worker = GetJson("/api/log", "run=0&log=worker-0.log")["entries"];
  ASSERT_EQ(worker.size(), 1);
  EXPECT_EQ(worker[0]["message"], "three");
  EXPECT_TRUE(
      GetJson("/api/log", "run=0&log=../job.textproto")["entries"].empty());
  EXPECT_EQ(log["sample"], "text");
  const auto status = GetJson("/api/status", "run=0");
  EXPECT_EQ(status["live"], false);
  EXPECT_EQ(status["summary"]["status"], "done");
  // Two workers with half of the reduction tree each.
  EXPECT_EQ(status["expected"]["workers"][1]["sent"], 400);
  EXPECT_EQ(status["expected"]["server"]["received"], 800);
}

TEST_F(DashboardTest, RefusesWhatItDoesNotHave) {
  WriteRun("a", 1);
  Make();
  for (const auto& [path, query] :
       std::vector<std::pair<std::string, std::string>>{
           {"/api/series", ""},
           {"/api/series", "run=1"},
           {"/api/series", "run=-1"},
           {"/api/series", "run=x"},
           {"/api/nothing", "run=0"},
           {"/nothing.js", ""},
           {"/../a/job.textproto", ""},
           {"/page/app.js", ""}}) {
    const HttpResponse response = Get(path, query);
    EXPECT_EQ(response.code, 404) << path << "?" << query;
    EXPECT_TRUE(ParseOrderedJson(response.body).contains("error"));
  }
  // Numbers out of range are limited.
  EXPECT_EQ(GetJson("/api/series", "run=0&points=0&from=-5")["step"].size(), 1);
  EXPECT_EQ(GetJson("/api/series",
                    "run=0&points=99999999&to=99999999999999999999")["step"]
                .size(),
            1);
}

TEST_F(DashboardTest, ServesThePageWithAStrictPolicy) {
  Make();
  for (const auto& [path, type] :
       std::vector<std::pair<std::string, std::string>>{
           {"/", "text/html; charset=utf-8"},
           {"/app.js", "text/javascript; charset=utf-8"},
           {"/charts.js", "text/javascript; charset=utf-8"},
           {"/cluster.js", "text/javascript; charset=utf-8"},
           {"/elements.js", "text/javascript; charset=utf-8"},
           {"/style.css", "text/css; charset=utf-8"},
           {"/icon.svg", "image/svg+xml"}}) {
    const HttpResponse response = Get(path);
    EXPECT_EQ(response.code, 200) << path;
    EXPECT_EQ(response.content_type, type) << path;
    EXPECT_THAT(response.headers,
                Contains(Pair("Content-Security-Policy",
                              HasSubstr("default-src 'self'"))));
  }
  // The policy would forbid them.
  EXPECT_THAT(Get("/").body, Not(HasSubstr("<style")));
  EXPECT_THAT(Get("/").body, Not(HasSubstr("style=")));
}

TEST_F(DashboardTest, AnswersOnlyPagesOfThisMachineWithoutAToken) {
  Make();
  for (const char* host : {"localhost:29480", "127.0.0.1", "[::1]:29480"}) {
    EXPECT_EQ(Get("/api/runs", "", "", host).code, 200) << host;
  }
  for (const char* host : {"example.org", "localhost.example.org:29480", "",
                           "[", "127.0.0.1.example.org"}) {
    EXPECT_EQ(Get("/api/runs", "", "", host).code, 403) << host;
  }
}

TEST_F(DashboardTest, RequiresOneOfTheTokens) {
  Make({"first", "second"});
  const auto basic = [](const std::string& text) {
    return absl::StrCat("Basic ", absl::Base64Escape(text));
  };
  for (const std::string& right :
       {basic("any:first"), basic(":second"), std::string("Bearer first")}) {
    EXPECT_EQ(Get("/api/runs", "", right, "node0:29480").code, 200) << right;
  }
  for (const std::string& wrong :
       {std::string(), basic("first:"), basic("any:firs"), basic("any:"),
        std::string("Basic !"), std::string("Bearer "), std::string("first")}) {
    const HttpResponse response = Get("/", "", wrong, "127.0.0.1:29480");
    EXPECT_EQ(response.code, 401) << wrong;
    EXPECT_THAT(response.headers,
                Contains(Pair("WWW-Authenticate", HasSubstr("Basic"))));
    EXPECT_THAT(response.body, HasSubstr("the job's token is required"));
  }
}

TEST_F(DashboardTest, AnswersWithJsonWhateverNamesAndLogsContain) {
  WriteRun("a\"<img src=x>\n\xff", 1);
  Write("a\"<img src=x>\n\xff/logs/server-0.log", "T info \xff\xfe <script>\n");
  Make();
  const auto runs = GetJson("/api/runs");
  EXPECT_THAT(runs["runs"][0]["name"].get<std::string>(),
              HasSubstr("a\"<img src=x>\n"));
  EXPECT_THAT(
      GetJson("/api/log", "run=0")["entries"][0]["message"].get<std::string>(),
      HasSubstr("<script>"));
}

TEST_F(DashboardTest, ShowsTheNewestEvents) {
  WriteRun("a", 3);
  Write("a/events.jsonl",
        "{\"step\":1,\"time\":1.5,\"kind\":\"worker_joined\"}\n"
        "[]\nno json\n{\"kind\":\"x\"}\n"
        "{\"step\":2,\"time\":2.5,\"kind\":\"worker_lost\","
        "\"message\":\"<script>\"}\n"
        "{\"step\":3,\"ti");
  WriteRun("b", 3);
  Make();
  const auto events = GetJson("/api/events", "run=0")["events"];
  ASSERT_EQ(events.size(), 2);
  EXPECT_EQ(events[0]["kind"], "worker_joined");
  EXPECT_EQ(events[1]["step"], 2);
  EXPECT_EQ(events[1]["message"], "<script>");
  EXPECT_EQ(GetJson("/api/events", "run=0&count=2")["events"].size(), 1);
  EXPECT_EQ(GetJson("/api/events", "run=1")["events"].size(), 0);
}

TEST_F(DashboardTest, OpensOnlyTheRegularFilesOfARun) {
  Write("secret", "TOP SECRET");
  Write("secrets/server-0.log", "T info TOP SECRET\n");
  fs::create_directories(folder_ / "runs/a");
  fs::create_directories(folder_ / "runs/b");
  const auto link = [&](const std::string& name, const std::string& to) {
    fs::create_symlink(folder_ / to, folder_ / "runs/a" / name);
  };
  link("job.textproto", "secret");
  link("sample.txt", "secret");
  link("summary.json", "secret");
  link("events.jsonl", "secret");
  link("server.json", "secret");
  link("logs", "secrets");
  for (const char* name : {"job.textproto", "metrics.jsonl", "summary.json",
                           "events.jsonl", "server.json", "sample.txt"}) {
    ASSERT_EQ(mkfifo((folder_ / "runs/b" / name).c_str(), 0600), 0);
  }
  // A link to a run of another user.
  fs::create_directory_symlink(folder_ / "runs/a", folder_ / "runs/c");
  RunList runs{RunAddressRules()};
  ASSERT_TRUE(runs.AddPath((folder_ / "runs").string()).ok());
  dashboard_ =
      std::make_unique<Dashboard>(std::move(runs), Dashboard::Options());
  EXPECT_EQ(GetJson("/api/runs")["runs"].size(), 2);
  for (const char* run : {"run=0", "run=1"}) {
    for (const char* path :
         {"/api/runs", "/api/series", "/api/lines", "/api/status", "/api/job",
          "/api/log", "/api/events"}) {
      const HttpResponse response = Get(path, run);
      EXPECT_EQ(response.code, 200) << path;
      EXPECT_THAT(response.body, Not(HasSubstr("TOP SECRET"))) << path;
    }
  }
  EXPECT_THAT(GetJson("/api/job", "run=0")["error"].get<std::string>(),
              HasSubstr("is a symbolic link"));
  EXPECT_THAT(GetJson("/api/job", "run=1")["error"].get<std::string>(),
              HasSubstr("is a FIFO"));
}

TEST_F(DashboardTest, SurvivesJsonThatIsNestedDeeply) {
  const std::string deep =
      absl::StrCat(std::string(100000, '['), std::string(100000, ']'));
  WriteRun("a", 3);
  Write("a/metrics.jsonl",
        absl::StrCat("{\"step\":1,\"x\":", deep, "}\n{\"step\":2}\n"));
  Write("a/summary.json",
        absl::StrCat("{\"status\":\"done\",\"x\":", deep, "}"));
  Write("a/events.jsonl",
        absl::StrCat("{\"step\":1,\"time\":1,\"kind\":\"x\",\"y\":", deep,
                     "}\n{\"step\":2,\"time\":1,\"kind\":\"x\"}\n"));
  Write("a/logs/server-0.log", absl::StrCat("{\"msg\":", deep, "}\n"));
  Make();
  EXPECT_EQ(GetJson("/api/runs")["runs"][0]["step"], 2);
  EXPECT_EQ(GetJson("/api/lines", "run=0")["lines"].size(), 1);
  EXPECT_EQ(GetJson("/api/status", "run=0")["summary"], nullptr);
  EXPECT_EQ(GetJson("/api/events", "run=0")["events"].size(), 1);
  EXPECT_EQ(GetJson("/api/log", "run=0")["entries"].size(), 1);
}

TEST_F(DashboardTest, AnswersWithAsManyLinesAsFit) {
  std::string lines;
  for (int step = 1; step <= 20; ++step) {
    absl::StrAppend(&lines, "{\"step\":", step, ",\"x\":\"",
                    std::string(1 << 20, 'x'), "\"}\n");
  }
  Write("a/metrics.jsonl", lines);
  Make();
  nlohmann::ordered_json json;
  int total = 0;
  // A request may end before it has read all lines, but reads a few.
  for (int i = 0; i < 20 && total < 20; ++i) {
    const HttpResponse response = Get("/api/lines", "run=0&count=200");
    EXPECT_LT(response.body.size(), 5 << 20);
    json = ParseOrderedJson(response.body);
    total = json["total"];
  }
  EXPECT_EQ(total, 20);
  ASSERT_EQ(json["lines"].size(), 2);
  EXPECT_EQ(json["lines"][1]["step"], 20) << "the last one is included";
}

TEST_F(DashboardTest, ReleasesTheIndexOfRunsThatNobodyLooksAt) {
  std::string lines;
  for (size_t step = 1; step < MetricsIndex::kMaxLines; ++step) {
    absl::StrAppend(&lines, "{\"step\":", step, "}\n");
  }
  constexpr size_t kFit = RunList::kMaxIndexedLines / MetricsIndex::kMaxLines;
  for (size_t i = 0; i < kFit + 2; ++i) {
    Write(absl::StrCat(100 + i, "/metrics.jsonl"), lines);
  }
  Make();
  for (size_t i = 0; i < kFit + 2; ++i) {
    GetJson("/api/series", absl::StrCat("run=", i));
  }
  const auto listed = GetJson("/api/runs");
  for (const auto& run : listed["runs"]) {
    EXPECT_EQ(run["lines"], run["id"] < 2 ? 0 : MetricsIndex::kMaxLines - 1)
        << run["id"];
  }
  EXPECT_EQ(GetJson("/api/series", "run=0")["lines"],
            MetricsIndex::kMaxLines - 1);
}

TEST(RunListTest, RefusesAFolderThatDoesNotExist) {
  RunList runs{RunAddressRules()};
  EXPECT_THAT(
      runs.AddPath("/does/not/exist"),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("/does/not/exist ")));
}

}  // namespace
}  // namespace tributary
