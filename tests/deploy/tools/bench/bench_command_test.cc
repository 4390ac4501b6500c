// The benchmark prints what scripts compare it by, and what it times is the
// work it says.
#include <string>
#include <vector>

#include "common/base/json.h"
#include "deploy/tools/bench/bench_jobs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

nlohmann::json Bench(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {kTributary, "bench", "step"});
  arguments.insert(arguments.end(), {"--json", "--seconds", "0.2"});
  const CommandResult result = RunExpecting(0, arguments);
  return ParseJson(result.standard_output);
}

void ExpectTiming(const nlohmann::json& result) {
  for (const char* key :
       {"system", "model", "mode", "workers", "threads", "precision", "device",
        "server_device", "parameters", "batch_per_worker", "steps", "median_ms",
        "min_ms", "samples_per_second", "cpu_ms_per_step_per_worker"}) {
    EXPECT_TRUE(result.contains(key)) << key;
  }
  EXPECT_GT(result.value("min_ms", 0.0), 0);
  EXPECT_GE(result.value("median_ms", 0.0), result.value("min_ms", 0.0));
  EXPECT_GE(result.value("steps", 0), 5);
}

TEST(BenchTest, TimesASingleProcess) {
  const nlohmann::json result = Bench({"mlp"});
  ExpectTiming(result);
  // 784-512-512-10 with biases.
  EXPECT_EQ(result.value("parameters", 0), 669706);
  EXPECT_EQ(result.value("precision", ""), "fp32");
  EXPECT_EQ(result.value("batch_per_worker", 0), 64);
  EXPECT_EQ(result.value("workers", 0), 1);
}

TEST(BenchTest, ComputesInTheJobsPrecision) {
  const nlohmann::json result = Bench({"mlp", "--set", "precision=BFLOAT16"});
  ExpectTiming(result);
  EXPECT_EQ(result.value("precision", ""), "bf16");
  EXPECT_EQ(Bench({"mlp", "--set", "precision=TF32"}).value("precision", ""),
            "tf32");
}

TEST(BenchTest, TimesIndependentProcesses) {
  const nlohmann::json result =
      Bench({"mlp", "--mode", "independent", "--batch", "8"});
  ExpectTiming(result);
  EXPECT_EQ(result.value("workers", 0), 2);
  EXPECT_EQ(result.value("batch_per_worker", 0), 8);
}

TEST(BenchTest, TimesTheExchangeAndWhatItCosts) {
  const nlohmann::json result =
      Bench({"mlp", "--mode", "exchange", "--batch", "8"});
  ExpectTiming(result);
  EXPECT_EQ(result.value("batch_per_worker", 0), 8);
  EXPECT_NEAR(result.value("exchange_cost_ms", -1.0),
              result.value("median_ms", 0.0) -
                  result.value("independent_median_ms", 0.0),
              0.002);
}

TEST(BenchTest, TimesAnAllReduce) {
  const nlohmann::json result =
      Bench({"mlp", "--mode", "exchange", "--batch", "8", "--set",
             "exchange.all_reduce.shard_optimizer=true"});
  ExpectTiming(result);
  EXPECT_TRUE(result.contains("exchange_cost_ms"));
}

TEST(BenchTest, OnlyAnExchangeHasAServersDevice) {
  const CommandResult result = RunExpecting(
      2, {kTributary, "bench", "step", "mlp", "--server-device", "cuda"});
  EXPECT_THAT(result.standard_error, HasSubstr("--server-device: "));
}

TEST(BenchTest, KnowsItsModels) {
  const CommandResult result =
      RunExpecting(2, {kTributary, "bench", "step", "bigmpl"});
  EXPECT_THAT(result.standard_error, HasSubstr("did you mean bigmlp?"));
  EXPECT_EQ(RunCommand({kTributary, "bench", "speed"}).exit_code, 2);
}

TEST(BenchJobTest, MicroBatchesAreAsManyAsTheThreads) {
  BenchLoad load;
  load.model = "gpt";
  load.workers = 2;
  load.threads = 2;
  const absl::StatusOr<JobSpec> job = BenchJob(load);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->batch().global(), 16);
  EXPECT_EQ(job->batch().micro_batches(), 4);
  load.workers = 3;
  EXPECT_EQ(BenchJob(load).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
