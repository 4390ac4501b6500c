// What the command prints, and that what it says of bytes is what a run sends.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// 68,000 parameters and a bit, in chunks of 16 KiB.
constexpr char kPlanCommandJob[] = R"(
name: "small"
model { mlp { hidden: 256 hidden: 256 } }
data { random { shape: 8 classes: 4 samples: 64 } }
batch { global: 16 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.01 } }
exchange { transport: WIRE parameter_server { chunk_bytes: 16384 } }
evaluation { disabled: true }
steps: 10
)";

std::string WriteJob(const std::string& folder) {
  const std::string path = folder + "/job.textproto";
  WriteWholeFile(path, kPlanCommandJob);
  return path;
}

nlohmann::json Plan(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(),
                   {kTributary, "plan", WriteJob(MakeTestFolder()), "--json"});
  const CommandResult result = RunExpecting(0, arguments);
  return ParseJson(result.standard_output);
}

const nlohmann::json& Row(const nlohmann::json& plan, const std::string& key) {
  for (const nlohmann::json& row : plan["placements"]) {
    if (row["key"] == key) return row;
  }
  static const nlohmann::json none;
  ADD_FAILURE() << "there is no row " << key;
  return none;
}

TEST(PlanTest, MeasuresComputing) {
  const nlohmann::json plan = Plan({"--workers", "2"});
  EXPECT_EQ(plan["parameters"], 8 * 256 + 256 + 256 * 256 + 256 + 256 * 4 + 4);
  EXPECT_GT(plan["compute_ms"], 0);
  for (const char* key :
       {"one_server", "worker_hosts", "all_reduce", "one_host"}) {
    EXPECT_GE(Row(plan, key)["step_ms"], plan["compute_ms"]) << key;
  }
}

TEST(PlanTest, TakesComputingFromTheFlag) {
  const nlohmann::json plan =
      Plan({"--workers", "4", "--compute", "20", "--bandwidth", "100Gbit"});
  EXPECT_NEAR(plan["compute_ms"], 20, 1e-6);
  EXPECT_NEAR(Row(plan, "one_server")["step_ms"], 20, 1.0);
  EXPECT_EQ(Row(plan, "one_server")["bottleneck"], "computing");
}

TEST(PlanTest, PrintsATable) {
  const CommandResult result = RunExpecting(
      0, {kTributary, "plan", WriteJob(MakeTestFolder()), "--workers", "4",
          "--servers", "2", "--bandwidth", "1Mbit"});
  EXPECT_THAT(result.standard_output, HasSubstr("2 servers, hosts of their"));
  EXPECT_THAT(result.standard_output, HasSubstr("the server's link"));
}

// Every worker gets every version, the first included, and one worker's
// gradients are one contribution.
TEST(PlanTest, ForeseesTheBytesOfARun) {
  const nlohmann::json plan = Plan({});
  const auto run = [](int workers) {
    const std::string folder = MakeTestFolder();
    RunExpecting(0, {kTributary, "train", WriteJob(folder), "--workers",
                     absl::StrCat(workers), "--servers", "2", "--output",
                     folder + "/run"});
    return ParseJson(ReadWholeFile(folder + "/run/summary.json"));
  };
  const double steps_and_first = 11;
  const nlohmann::json summary = run(3);
  EXPECT_GT(summary["predicted"]["step_milliseconds"], 0);
  EXPECT_GT(summary["predicted"]["compute_milliseconds"], 0);
  const double received = summary["bytes_received"];
  EXPECT_NEAR(received / (3 * steps_and_first * plan["bytes"].get<double>()), 1,
              0.01);
  const double sent = run(1)["bytes_sent"];
  EXPECT_NEAR(sent / (steps_and_first * plan["bytes"].get<double>()), 1, 0.01);
}

constexpr char kTwoStages[] = "parallel.pipeline={ stages: 2 }";

TEST(PlanTest, PredictsAPipeline) {
  const nlohmann::json plan =
      Plan({"--workers", "5", "--threads", "1", "--set", kTwoStages});
  EXPECT_EQ(plan["replicas"], 2);
  EXPECT_EQ(plan["spares"], 1);
  EXPECT_EQ(plan["micro_batches"], 2);
  ASSERT_EQ(plan["stages"].size(), 2u);
  double slowest = 0;
  for (const nlohmann::json& stage : plan["stages"]) {
    EXPECT_GT(stage["layers"], 0);
    EXPECT_GT(stage["memory_bytes"], 0);
    slowest = std::max(slowest, stage["forward_ms"].get<double>() +
                                    stage["backward_input_ms"].get<double>() +
                                    stage["backward_weights_ms"].get<double>());
  }
  EXPECT_GT(plan["stages"][0]["boundary_bytes"], 0);
  for (const char* key : {"one_server", "one_host"}) {
    EXPECT_GE(Row(plan, key)["step_ms"], 2 * slowest) << key;
    EXPECT_GT(Row(plan, key)["whole_model_step_ms"], 0) << key;
  }
}

TEST(PlanTest, PredictsAnAllReduceBetweenReplicasOfStages) {
  const nlohmann::json plan =
      Plan({"--workers", "4", "--threads", "1", "--set", kTwoStages, "--set",
            "exchange.all_reduce={}"});
  EXPECT_EQ(plan["replicas"], 2);
  for (const char* key : {"all_reduce", "one_host"}) {
    EXPECT_GE(Row(plan, key)["step_ms"], Row(plan, key)["pipeline_ms"]) << key;
    EXPECT_GT(Row(plan, key)["whole_model_step_ms"], 0) << key;
  }
  EXPECT_GT(Row(plan, "all_reduce")["link_ms"], 0);
}

TEST(PlanTest, HasAWorkerForEachStage) {
  EXPECT_EQ(Plan({"--set", "parallel.pipeline={ stages: 3 }"})["workers"], 3);
}

TEST(PlanTest, RefusesWhatAPipelineCannotDo) {
  const std::string job = WriteJob(MakeTestFolder());
  const std::vector<std::vector<std::string>> bad = {
      {"--workers", "1", "--set", kTwoStages},
      {"--workers", "64", "--set", kTwoStages},
      {"--compute", "10", "--set", kTwoStages},
      {"--set", "parallel.pipeline={ stages: 60 }"},
      {"--set", "parallel.pipeline={ stages: 2 split: 'nothing' }"}};
  for (const std::vector<std::string>& flags : bad) {
    std::vector<std::string> arguments = {kTributary, "plan", job};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const CommandResult result = RunExpecting(2, arguments);
    EXPECT_THAT(result.standard_output, testing::IsEmpty());
  }
}

}  // namespace
}  // namespace tributary
