// The benchmark of the exchange runs what it says, and prints what scripts
// read.
#include "deploy/tools/bench/bench_exchange.h"

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "deploy/launch/plan/update_pass.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

CommandResult BenchExchange(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {kTributary, "bench", "exchange"});
  return RunCommand(arguments);
}

// Several chunks, the last one short.
nlohmann::json Measure(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(),
                   {"--parameters", "5003", "--chunk", "4096", "--workers", "2",
                    "--seconds", "0.2", "--json"});
  const CommandResult result = BenchExchange(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  nlohmann::json json = ParseJson(result.standard_output);
  if (!json.is_object()) json = nlohmann::json::object();
  for (const char* key : {"system",
                          "parameters",
                          "workers",
                          "servers",
                          "server_threads",
                          "server_device",
                          "chunk_bytes",
                          "dtype",
                          "consistency",
                          "transport",
                          "steps",
                          "step_median_ms",
                          "step_p90_ms",
                          "step_p99_ms",
                          "chunk_latency_median_us",
                          "chunk_latency_p90_us",
                          "chunk_latency_p99_us",
                          "to_servers_gb_per_s",
                          "to_workers_gb_per_s",
                          "gb_per_s",
                          "worker_cpu_s_per_gb",
                          "server_cpu_s_per_gb",
                          "grpc_limit_gb_per_s",
                          "share_of_grpc_limit",
                          "socket_limit_gb_per_s",
                          "share_of_socket_limit",
                          "memory_limit_gb_per_s",
                          "share_of_memory_limit"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json.value("parameters", 0), 5003);
  EXPECT_EQ(json.value("workers", 0), 2);
  EXPECT_GE(json.value("steps", 0), 5);
  for (const std::string what : {"step_", "chunk_latency_"}) {
    const std::string unit = what == "step_" ? "_ms" : "_us";
    const double median = json.value(what + "median" + unit, 0.0);
    const double p90 = json.value(what + "p90" + unit, 0.0);
    EXPECT_GT(median, 0) << what;
    EXPECT_GE(p90, median) << what;
    EXPECT_GE(json.value(what + "p99" + unit, 0.0), p90) << what;
  }
  EXPECT_GT(json.value("to_servers_gb_per_s", 0.0), 0);
  // Both workers get what both have sent.
  EXPECT_NEAR(json.value("to_workers_gb_per_s", 0.0),
              json.value("to_servers_gb_per_s", 0.0),
              0.1 * json.value("to_servers_gb_per_s", 0.0));
  EXPECT_NEAR(json.value("gb_per_s", 0.0),
              json.value("to_servers_gb_per_s", 0.0) +
                  json.value("to_workers_gb_per_s", 0.0),
              1e-9);
  return json;
}

void ExpectShare(const nlohmann::json& json, const std::string& limit) {
  ASSERT_TRUE(json[limit + "_limit_gb_per_s"].is_number()) << json.dump();
  EXPECT_NEAR(json["share_of_" + limit + "_limit"].get<double>(),
              json["gb_per_s"].get<double>() /
                  json[limit + "_limit_gb_per_s"].get<double>(),
              1e-9);
}

TEST(BenchExchangeTest, OverTcpIsComparedWithBareStreams) {
  const nlohmann::json json =
      Measure({"--transport", "wire", "--servers", "2"});
  EXPECT_EQ(json.value("transport", ""), "wire");
  EXPECT_EQ(json.value("servers", 0), 2);
  ExpectShare(json, "grpc");
  ExpectShare(json, "socket");
  EXPECT_TRUE(json["memory_limit_gb_per_s"].is_null());
}

TEST(BenchExchangeTest, OverUnixSocketsIsComparedWithBareStreams) {
  const nlohmann::json json = Measure({"--transport", "unix"});
  EXPECT_EQ(json.value("transport", ""), "unix");
  ExpectShare(json, "grpc");
  ExpectShare(json, "socket");
}

TEST(BenchExchangeTest, InSharedMemoryIsComparedWithThePassAlone) {
  const nlohmann::json json = Measure({"--threads", "2"});
  EXPECT_EQ(json.value("transport", ""), "memory");
  ExpectShare(json, "memory");
  EXPECT_TRUE(json["grpc_limit_gb_per_s"].is_null());
  EXPECT_TRUE(json["share_of_socket_limit"].is_null());
}

TEST(BenchExchangeTest, PrintsATableForPeople) {
  const CommandResult result =
      BenchExchange({"--parameters", "1024", "--workers", "1", "--threads", "1",
                     "--seconds", "0.1"});
  EXPECT_EQ(result.exit_code, 0) << result.standard_error;
  EXPECT_THAT(result.standard_output,
              HasSubstr("1024 parameters (4 KiB, in chunks of 1 MiB), float32, "
                        "synchronous\n1 worker, 1 server with 1 thread, "));
  for (const char* row : {"\nstep  ", "\nchunk latency ", "\nto the servers ",
                          "\ntogether ", "\nCPU ", "\nsum and update "}) {
    EXPECT_THAT(result.standard_output, HasSubstr(row));
  }
  for (absl::string_view line : absl::StrSplit(result.standard_output, '\n')) {
    EXPECT_LE(line.size(), 80u) << line;
  }
}

TEST(BenchExchangeTest, RefusesNonsense) {
  const auto expect = [](std::vector<std::string> arguments,
                         const std::string& message) {
    const CommandResult result = BenchExchange(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.standard_error, HasSubstr(message));
  };
  expect({"--workers", "3"}, "--workers 3 is not a power of two");
  expect({"--workers", "0"}, "--workers");
  expect({"--chunk", "5000"}, "5000 is not a multiple of 64");
  expect({"--parameters", "0"}, "--parameters");
  expect({"--transport", "pigeon"}, "--transport");
  expect({"--dtype", "int8"}, "--dtype");
  expect({"--consistency", "eventual"}, "--consistency");
  expect({"extra"}, "extra");
  const CommandResult result =
      RunExpecting(2, {kTributary, "bench", "exchang"});
  EXPECT_THAT(result.standard_error, HasSubstr("did you mean exchange?"));
}

TEST(BenchExchangeTest, BareStreamsStayOnThisMachine) {
  const auto stream = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {kTributary, "bench", "stream"});
    return RunCommand(arguments);
  };
  EXPECT_THAT(stream({"--listen", "0.0.0.0:0"}).standard_error,
              HasSubstr("loopback"));
  EXPECT_THAT(stream({}).standard_error, HasSubstr("--listen or --connect"));
  EXPECT_EQ(stream({"--kind", "socket", "--connect", "127.0.0.1:1"}).exit_code,
            1);
}

TEST(ExchangeJobTest, SaysWhatIsExchanged) {
  ExchangeBenchLoad load;
  load.parameters = 77;
  load.workers = 4;
  load.transport = "unix";
  load.chunk_bytes = 8192;
  const absl::StatusOr<JobSpec> job = ExchangeJob(load, /*steps=*/9);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->model().synthetic().parameters(), 77);
  EXPECT_EQ(job->batch().micro_batches(), 4);
  EXPECT_EQ(job->steps(), 9);
  EXPECT_EQ(job->exchange().transport(), ExchangeSpec::UNIX_SOCKET);
  EXPECT_EQ(job->exchange().parameter_server().chunk_bytes(), 8192);
  load.workers = 6;
  EXPECT_EQ(ExchangeJob(load, 9).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(UpdatePassTest, TakesTime) {
  ExchangeBenchLoad load;
  load.parameters = 5003;
  load.chunk_bytes = 4096;
  for (const int workers : {1, 2, 8}) {
    const absl::StatusOr<JobSpec> job = ExchangeJob(load, /*steps=*/9);
    ASSERT_TRUE(job.ok()) << job.status();
    const absl::StatusOr<double> seconds =
        MeasureUpdatePass(*job, workers, /*threads=*/2, /*seconds=*/0);
    ASSERT_TRUE(seconds.ok()) << seconds.status();
    EXPECT_GT(*seconds, 0);
  }
}

}  // namespace
}  // namespace tributary
