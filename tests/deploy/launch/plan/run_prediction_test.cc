#include "deploy/launch/plan/run_prediction.h"

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr int64_t kParameters = 100 << 18;  // 100 chunks.

LocalRun MakeRun(int workers, ExchangeSpec::Transport transport) {
  LocalRun run;
  run.job.mutable_batch()->set_micro_batches(4);
  run.job.mutable_exchange()->set_transport(transport);
  run.workers = workers;
  run.server_threads = 2;
  run.cores = 2;
  return run;
}

// Workers that computed 30 ms a step, forward 10 of them; the last one half of
// that.
nlohmann::ordered_json Summary(int workers) {
  nlohmann::ordered_json summary = {{"parameters", kParameters},
                                    {"processes", {}}};
  summary["processes"].push_back({{"role", "server"}, {"rank", 0}});
  for (int rank = 0; rank < workers; ++rank) {
    const double share = rank > 0 && rank == workers - 1 ? 0.5 : 1;
    summary["processes"].push_back({{"role", "worker"},
                                    {"rank", rank},
                                    {"steps", 100},
                                    {"forward_seconds", share * 1},
                                    {"compute_seconds", share * 3}});
  }
  return summary;
}

double Step(const LocalRun& run, double pass_seconds) {
  PassTiming pass;
  pass.update = pass_seconds / kParameters;
  const auto predicted = PredictLocalRun(run, Summary(run.workers), pass);
  EXPECT_TRUE(predicted.has_value());
  return predicted->value("step_milliseconds", 0.0);
}

TEST(RunPredictionTest, IsTheComputingOfTheSlowestWorker) {
  EXPECT_NEAR(Step(MakeRun(1, ExchangeSpec::AUTO), 0), 30, 0.1);
  EXPECT_NEAR(Step(MakeRun(4, ExchangeSpec::AUTO), 0), 30, 0.1);
}

// A micro-batch of each of two stages takes 7.5 ms.
TEST(RunPredictionTest, AddsTheBubbleOfAPipeline) {
  LocalRun run = MakeRun(2, ExchangeSpec::AUTO);
  PipelineSpec* const pipeline = run.job.mutable_parallel()->mutable_pipeline();
  pipeline->set_stages(2);
  pipeline->set_schedule(PipelineSpec::GPIPE);
  EXPECT_NEAR(Step(run, 0), 30 + 7.5, 0.1);
  pipeline->set_schedule(PipelineSpec::ZERO_BUBBLE);
  EXPECT_NEAR(Step(run, 0), 30 + 2.5, 0.1);
  // Two replicas: a stage computes 15 ms for each of two micro-batches.
  run.workers = 4;
  EXPECT_NEAR(Step(run, 0), 30 + 5, 0.1);
}

TEST(RunPredictionTest, HidesAShortPassAndShowsALongOne) {
  EXPECT_NEAR(Step(MakeRun(2, ExchangeSpec::AUTO), 0.002), 30, 0.5);
  EXPECT_GT(Step(MakeRun(2, ExchangeSpec::AUTO), 0.050), 50);
  EXPECT_LT(Step(MakeRun(2, ExchangeSpec::AUTO), 0.050), 80);
}

TEST(RunPredictionTest, SocketsTakeTheCoresOfComputing) {
  // 105 MB, up and down, for each of two workers: 0.42 GB at 0.8 s/GB on two
  // cores.
  EXPECT_NEAR(Step(MakeRun(2, ExchangeSpec::WIRE), 0), 30 + 168, 15);
  EXPECT_LT(Step(MakeRun(2, ExchangeSpec::UNIX_SOCKET), 0),
            Step(MakeRun(2, ExchangeSpec::WIRE), 0));
  EXPECT_GT(Step(MakeRun(4, ExchangeSpec::WIRE), 0),
            1.7 * Step(MakeRun(2, ExchangeSpec::WIRE), 0));
}

TEST(RunPredictionTest, WorkersCountStepsInRoundsToo) {
  LocalRun run = MakeRun(2, ExchangeSpec::AUTO);
  run.job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_local_steps()
      ->set_inner_steps(10);
  EXPECT_NEAR(Step(run, 0), 30, 0.1);
}

LocalRun MakeAllReduce(int workers, bool shard_optimizer) {
  LocalRun run = MakeRun(workers, ExchangeSpec::AUTO);
  run.job.mutable_exchange()->mutable_all_reduce()->set_shard_optimizer(
      shard_optimizer);
  return run;
}

TEST(RunPredictionTest, AllReduceSendsLessThanServers) {
  // Of 105 MB each of two workers sends half up and half down: 0.21 GB in all,
  // at 0.6 s/GB on two cores.
  EXPECT_NEAR(Step(MakeAllReduce(2, false), 0), 30 + 63, 10);
  // Of four workers three quarters, both ways: 0.63 GB.
  EXPECT_NEAR(Step(MakeAllReduce(4, false), 0), 30 + 189, 20);
  EXPECT_NEAR(Step(MakeAllReduce(1, false), 0), 30, 0.1);
}

TEST(RunPredictionTest, AllReduceRunsTheOptimizerInEveryWorkerOrInOneOfThem) {
  EXPECT_EQ(UpdatingThreads(MakeAllReduce(4, false)), 4);
  EXPECT_EQ(UpdatingThreads(MakeRun(4, ExchangeSpec::AUTO)), 2);
  const double none = Step(MakeAllReduce(2, false), 0);
  const double one = Step(MakeAllReduce(2, true), 0.200) - none;
  const double two = Step(MakeAllReduce(2, false), 0.200) - none;
  EXPECT_GT(one, 100);
  EXPECT_NEAR(two - one, 200, 20);
}

TEST(RunPredictionTest, SaysNothingOfARunWithoutSteps) {
  const LocalRun run = MakeRun(1, ExchangeSpec::AUTO);
  nlohmann::ordered_json summary = Summary(1);
  summary["processes"][1]["steps"] = 0;
  EXPECT_FALSE(PredictLocalRun(run, summary, PassTiming()).has_value());
  summary = Summary(1);
  summary.erase("parameters");
  EXPECT_FALSE(PredictLocalRun(run, summary, PassTiming()).has_value());
  EXPECT_FALSE(
      PredictLocalRun(run, nlohmann::ordered_json::object(), PassTiming())
          .has_value());
}

}  // namespace
}  // namespace tributary
