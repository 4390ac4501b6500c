#include "deploy/tools/compare/comparison.h"

#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "common/base/json.h"
#include "deploy/tools/compare/comparison_hosts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using ::testing::ElementsAre;

// 100 steps of two workers: 12 s of training, of which the mean worker computes
// 8, exchanges 3, of which it waits for 1, and reads data for 0.5.
constexpr char kSummary[] = R"({
  "status": "done", "steps": 100, "seconds": 15, "parameters": 1000,
  "final_loss": 2.5, "exchange": "parameter_server",
  "evaluation": {"loss": 2.25, "accuracy": 0.5},
  "predicted": {"step_milliseconds": 110.5},
  "weights_sha256": "abc",
  "processes": [
    {"role": "worker", "rank": 1, "bytes_sent": 400, "bytes_received": 800,
     "peak_memory_bytes": 3000, "compute_seconds": 9, "data_seconds": 0.4,
     "exchange_seconds": 2, "waiting_seconds": 0.5},
    {"role": "worker", "rank": 0, "bytes_sent": 400, "bytes_received": 800,
     "peak_memory_bytes": 2000, "compute_seconds": 7, "data_seconds": 0.6,
     "exchange_seconds": 4, "waiting_seconds": 1.5},
    {"role": "server", "rank": 0, "bytes_sent": 1600, "bytes_received": 800,
     "peak_memory_bytes": 5000}]})";

TEST(ReadRunFiguresTest, TakesTheMeanOfTheWorkers) {
  const auto figures =
      ReadRunFigures(ParseOrderedJson(kSummary), {{50, 5, 3}, {100, 12, 2.5}});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_EQ(figures->steps, 100);
  EXPECT_EQ(figures->parameters, 1000);
  EXPECT_DOUBLE_EQ(figures->step_ms, 120);
  EXPECT_DOUBLE_EQ(figures->compute_ms, 80);
  EXPECT_DOUBLE_EQ(figures->data_ms, 5);
  EXPECT_DOUBLE_EQ(figures->exchange_ms, 20);
  ASSERT_TRUE(figures->waiting_ms.has_value());
  EXPECT_DOUBLE_EQ(*figures->waiting_ms, 10);
  EXPECT_NEAR(figures->other_ms, 5, 1e-9);
  EXPECT_EQ(figures->predicted_ms, 110.5);
  EXPECT_EQ(figures->final_loss, 2.5);
  EXPECT_EQ(figures->evaluation_loss, 2.25);
  EXPECT_EQ(figures->evaluation_accuracy, 0.5);
  EXPECT_EQ(figures->weights_sha256, "abc");
  ASSERT_EQ(figures->processes.size(), 3u);
  EXPECT_EQ(figures->processes[0].Name(), "server 0");
  EXPECT_EQ(figures->processes[1].Name(), "worker 0");
  EXPECT_EQ(figures->processes[2].bytes_sent, 4);
  EXPECT_EQ(figures->total_bytes_sent(), 24);
  EXPECT_EQ(figures->total_memory(), 10000);
}

TEST(ReadRunFiguresTest, DividesOneProcessAmongDevices) {
  const auto figures = ReadRunFigures(ParseOrderedJson(R"({
    "steps": 10, "seconds": 1, "processes": [
      {"role": "server", "rank": 0, "pid": 7, "host": "a", "cpu_seconds": 10,
       "bytes_sent": 100, "peak_memory_bytes": 1200,
       "memory_account": {"weights": 200, "optimizer": 100, "program": 999}},
      {"role": "worker", "rank": 0, "pid": 7, "host": "a", "cpu_seconds": 10,
       "bytes_sent": 50, "peak_memory_bytes": 1200, "leaf_cpu_seconds": 3,
       "memory_account": {"gradients": 150, "program": 999}},
      {"role": "worker", "rank": 1, "pid": 7, "host": "a", "cpu_seconds": 10,
       "bytes_sent": 50, "peak_memory_bytes": 1200, "leaf_cpu_seconds": 4,
       "memory_account": {"gradients": 150, "program": 999}}]})"),
                                      {});
  ASSERT_TRUE(figures.ok()) << figures.status();
  ASSERT_EQ(figures->processes.size(), 2u);
  const ProcessFigures& primary = figures->processes[0];
  EXPECT_EQ(primary.Name(), "device 0");
  EXPECT_EQ(primary.bytes_sent, 15);
  EXPECT_EQ(primary.peak_memory_bytes, 900);
  EXPECT_EQ(primary.cpu_seconds, 6);
  const ProcessFigures& other = figures->processes[1];
  EXPECT_EQ(other.Name(), "device 1");
  EXPECT_EQ(other.peak_memory_bytes, 300);
  EXPECT_EQ(other.cpu_seconds, 4);
  EXPECT_EQ(figures->total_memory(), 1200);
}

TEST(ReadRunFiguresTest, AnAllReduceDoesNotKnowItsWaiting) {
  std::string summary = kSummary;
  summary.replace(summary.find("parameter_server"), 16, "all_reduce");
  const auto figures = ReadRunFigures(ParseOrderedJson(summary), {});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_FALSE(figures->waiting_ms.has_value());
  EXPECT_DOUBLE_EQ(figures->exchange_ms, 30);
  EXPECT_DOUBLE_EQ(figures->step_ms, 150);  // No metrics: the whole training.
}

TEST(ReadRunFiguresTest, TakesWhatIsNotFiniteAsNotThere) {
  const auto figures = ReadRunFigures(
      ParseOrderedJson(
          R"({"steps": 1, "seconds": 1, "final_loss": null, "processes": [],
              "evaluation": {"loss": null}, "predicted": null})"),
      {{1, NAN, 1}});
  ASSERT_TRUE(figures.ok()) << figures.status();
  EXPECT_TRUE(std::isnan(figures->final_loss));
  EXPECT_FALSE(figures->evaluation_loss.has_value());
  EXPECT_FALSE(figures->predicted_ms.has_value());
  EXPECT_DOUBLE_EQ(figures->step_ms, 1000);
}

TEST(ReadRunFiguresTest, RefusesWhatIsNoRun) {
  for (const char* text :
       {"{}", "{\"steps\": 0, \"processes\": []}", "{\"steps\": 5}"}) {
    EXPECT_EQ(ReadRunFigures(ParseOrderedJson(text), {}).status().code(),
              absl::StatusCode::kDataLoss)
        << text;
  }
}

TEST(ReadLossesTest, TakesTheLinesAboutTraining) {
  const std::vector<LossPoint> losses = ReadLosses(
      "{\"step\":10,\"loss\":3.5,\"seconds\":1}\n"
      "{\"step\":10,\"evaluation_loss\":3.25,\"seconds\":2}\n"
      "damaged\n"
      "{\"step\":20,\"loss\":null,\"seconds\":3}\n"
      "{\"step\":30,\"lo");
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].step, 10);
  EXPECT_EQ(losses[0].loss, 3.5);
  EXPECT_EQ(losses[1].seconds, 3);
  EXPECT_TRUE(std::isnan(losses[1].loss));
}

ComparedRun Done(const std::string& name, const std::string& digest) {
  ComparedRun run;
  run.name = name;
  run.state = ComparedRun::State::kDone;
  run.figures.emplace();
  run.figures->weights_sha256 = digest;
  return run;
}

TEST(ComparisonTest, FindsRunsOfTheSameWeights) {
  Comparison comparison;
  comparison.runs = {Done("a", "1"), Done("b", "2"), Done("c", "1"),
                     Done("d", ""), Done("e", "")};
  EXPECT_THAT(RunsOfSameWeights(comparison),
              ElementsAre(ElementsAre("a", "c")));
  EXPECT_EQ(FindDone(comparison, "b")->name, "b");
  EXPECT_EQ(FindDone(comparison, "z"), nullptr);
}

TEST(ComparisonTest, NamesTheTransport) {
  JobSpec job;
  ExchangeSpec& exchange = *job.mutable_exchange();
  EXPECT_EQ(TransportName(job, /*on_gpus=*/false), "shared memory");
  exchange.set_transport(ExchangeSpec::WIRE);
  EXPECT_EQ(TransportName(job, /*on_gpus=*/true), "TCP");
  exchange.clear_transport();
  exchange.mutable_compression()->mutable_eight_bit();
  EXPECT_EQ(TransportName(job, /*on_gpus=*/false), "Unix sockets");
  AllReduceSpec* all_reduce = exchange.mutable_all_reduce();
  EXPECT_EQ(TransportName(job, /*on_gpus=*/false), "TCP");
  EXPECT_EQ(TransportName(job, /*on_gpus=*/true), "NCCL, else TCP");
  all_reduce->set_backend(AllReduceSpec::GLOO);
  EXPECT_EQ(TransportName(job, /*on_gpus=*/true), "TCP");
  all_reduce->set_backend(AllReduceSpec::NCCL);
  EXPECT_EQ(TransportName(job, /*on_gpus=*/true), "NCCL");
}

TEST(ComparisonTest, SetsDigitsApart) {
  EXPECT_EQ(WithCommas(7), "7");
  EXPECT_EQ(WithCommas(999), "999");
  EXPECT_EQ(WithCommas(1000), "1,000");
  EXPECT_EQ(WithCommas(67125248), "67,125,248");
}

ExchangePlan Plan(int workers) {
  PlanInputs inputs;
  inputs.job.mutable_batch()->set_micro_batches(8);
  inputs.chunk_elements.assign(16, 1 << 18);
  inputs.parameters = 16 << 18;
  inputs.workers = workers;
  inputs.bandwidth = 1.25e9;
  inputs.micro_batch = EvenProfile(0.01, inputs.chunk_elements);
  const absl::StatusOr<ExchangePlan> plan = PlanExchange(inputs);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

ComparedRun WithMemory(const std::string& name, double server, double worker) {
  ComparedRun run = Done(name, "");
  run.figures->processes = {{"server", 0, 0, 0, server},
                            {"worker", 0, 0, 0, worker},
                            {"worker", 1, 0, 0, worker + 1}};
  return run;
}

// Gradients and weights of 16 MiB, from and to four workers.
TEST(DescribeHostsTest, ThePrimaryCarriesMost) {
  Comparison comparison;
  comparison.workers = 4;
  comparison.runs = {WithMemory("synchronous", 100, 10)};
  const std::vector<HostFigures> hosts = DescribeHosts(Plan(4), comparison);
  ASSERT_EQ(hosts.size(), 6u);
  constexpr double kModel = 16 << 20;
  const double expected[] = {3, 1, 4, 1, 1.5, 1.5};
  for (size_t i = 0; i < hosts.size(); ++i) {
    EXPECT_NEAR(hosts[i].bytes_out / kModel, expected[i], 0.01)
        << hosts[i].host;
    EXPECT_NEAR(hosts[i].bytes_in / kModel, expected[i], 0.01) << hosts[i].host;
    EXPECT_GT(hosts[i].step_ms, 10);
  }
  EXPECT_EQ(hosts[0].host, "worker 0 and the server");
  EXPECT_EQ(hosts[0].memory_bytes, 110);
  EXPECT_EQ(hosts[1].host, "each other worker");
  EXPECT_EQ(hosts[1].memory_bytes, 11);
  EXPECT_EQ(hosts[2].host, "the server");
  EXPECT_EQ(hosts[2].memory_bytes, 100);
  // Without such runs nobody knows.
  EXPECT_FALSE(hosts[4].memory_bytes.has_value());
  EXPECT_FALSE(hosts[5].memory_bytes.has_value());
}

TEST(DescribeHostsTest, LeavesOutWhatTheJobDoesNotAllow) {
  Comparison comparison;
  comparison.workers = 2;
  comparison.left_out = {{"all_reduce", "why"}};
  for (const HostFigures& host : DescribeHosts(Plan(2), comparison)) {
    EXPECT_NE(host.placement, "all-reduce");
  }
  comparison.workers = 1;
  const std::vector<HostFigures> alone = DescribeHosts(Plan(1), comparison);
  ASSERT_FALSE(alone.empty());
  EXPECT_EQ(alone[0].bytes_out, 0);
}

}  // namespace
}  // namespace tributary
