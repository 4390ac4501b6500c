#include "deploy/launch/plan/pipeline_plan.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/pipeline/pipeline_schedule.h"
#include "common/plan/step_model.h"
#include "deploy/launch/plan/pipeline_report.h"
#include "deploy/launch/plan/plan_units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int kLayers = 4;
constexpr int64_t kLayerElements = 1 << 18;
constexpr int64_t kBoundaryBytes = 10000;

// Two stages of two layers each. A pass of a layer takes a millisecond. Each
// layer has a chunk.
PipelineInputs TwoStages(PipelineSchedule schedule, int micro_batches) {
  PipelineInputs inputs;
  PlanInputs& exchange = inputs.exchange;
  exchange.job.set_name("test");
  exchange.job.mutable_batch()->set_micro_batches(micro_batches);
  PipelineSpec* const pipeline =
      exchange.job.mutable_parallel()->mutable_pipeline();
  pipeline->set_stages(2);
  PipelineSpec::Schedule named = PipelineSpec::ZERO_BUBBLE;
  EXPECT_TRUE(PipelineSpec::Schedule_Parse(std::string(TraitsOf(schedule).name),
                                           &named));
  pipeline->set_schedule(named);
  exchange.parameters = kLayers * kLayerElements;
  exchange.chunk_elements.assign(kLayers, kLayerElements);
  exchange.bandwidth = 1e15;
  exchange.cores = 8;
  BalanceInput& input = inputs.stages.input;
  input.schedule = schedule;
  input.micro_batches = micro_batches;
  input.devices.resize(2);
  for (int i = 0; i < kLayers; ++i) {
    PipelineLayer layer;
    layer.name = absl::StrCat("layer", i);
    layer.cost.seconds = {1e-3, 1e-3, 1e-3};
    layer.cost.activation_bytes = 1000;
    layer.cost.parameter_bytes = 12 * kLayerElements;
    input.layers.push_back(layer);
    if (i > 0) input.cuts.push_back({i, kBoundaryBytes});
  }
  inputs.stages.cuts = {1};
  for (const int64_t s : {0, 1}) {
    StageSplit::Stage stage;
    stage.begin = static_cast<int>(2 * s);
    stage.end = static_cast<int>(2 * s + 2);
    stage.chunks = {2 * s, 2 * s + 2};
    stage.read_chunks = {stage.chunks};
    inputs.split.stages.push_back(stage);
  }
  return inputs;
}

// Adds the same job without a pipeline, with one thread in each worker.
void AddWhole(PipelineInputs* inputs) {
  PlanInputs whole = inputs->exchange;
  whole.job.mutable_parallel()->clear_pipeline();
  whole.micro_batch = EvenProfile(12e-3, whole.chunk_elements);
  inputs->whole = whole;
}

PlannedPipeline Row(const PipelineInputs& inputs, const std::string& key) {
  const absl::StatusOr<PipelinePlan> plan = PlanPipeline(inputs);
  EXPECT_TRUE(plan.ok()) << plan.status();
  for (const PlannedPipeline& row : plan->rows) {
    if (row.key == key) return row;
  }
  ADD_FAILURE() << "there is no row " << key;
  return PlannedPipeline();
}

TEST(PipelinePlanTest, EqualStagesHaveTheBubbleOfTheFormula) {
  const double p = 2;
  for (const int m : {4, 8}) {
    for (const ScheduleTraits& traits : AllSchedules()) {
      const PipelineInputs inputs = TwoStages(traits.schedule, m);
      const double formula =
          (p - 1) / ((traits.splits_backward ? 3 : 1) * m + p - 1);
      EXPECT_NEAR(PlanPipeline(inputs)->shape.FormulaBubble(), formula, 1e-9);
      for (const char* key : {"one_server", "one_host"}) {
        const PlannedPipeline row = Row(inputs, key);
        EXPECT_NEAR(row.bubble, formula, 2e-3) << traits.name << " " << key;
        EXPECT_NEAR(row.pipeline_seconds, m * 6e-3 / (1 - formula), 2e-4);
        EXPECT_NEAR(row.step_seconds, row.pipeline_seconds, 2e-4);
      }
    }
  }
}

TEST(PipelinePlanTest, SlowLinksLengthenTheStep) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kZeroBubble, 8);
  const double before = Row(inputs, "one_server").pipeline_seconds;
  // The activations of a micro-batch take 10 ms, longer than a stage.
  inputs.exchange.bandwidth = kBoundaryBytes / 10e-3 / kPayloadShare;
  const PlannedPipeline slow = Row(inputs, "one_server");
  EXPECT_GT(slow.pipeline_seconds, before);
  EXPECT_GT(slow.step_seconds, slow.pipeline_seconds);
  EXPECT_GE(slow.pipeline_seconds, 8 * 10e-3);
  EXPECT_NEAR(Row(inputs, "one_host").pipeline_seconds, before, 1e-4);
}

// GPIPE waits for the parts before B and W, ZERO_BUBBLE does not.
TEST(PipelinePlanTest, PartsOfGradientsPassTheLink) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, PipelineSchedule::kZeroBubble}) {
    PipelineInputs inputs = TwoStages(schedule, 8);
    inputs.exchange.bandwidth = 1e9;
    const double before = Row(inputs, "one_server").pipeline_seconds;
    inputs.split.parts.push_back({1, 0, {{0, 5000000}}});
    const double after = Row(inputs, "one_server").pipeline_seconds;
    EXPECT_GT(after, before);
    // 20 MB for each micro-batch.
    EXPECT_EQ(after > 8 * 20e-3, schedule == PipelineSchedule::kGPipe);
  }
}

// Weights and gradients pass the link to the server once in four steps, and
// what stages share, in every step.
TEST(PipelinePlanTest, LocalStepsUseTheLinkOncePerRound) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kZeroBubble, 8);
  inputs.exchange.bandwidth = 1e8;
  const PlannedPipeline each = Row(inputs, "one_server");
  inputs.exchange.job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_local_steps()
      ->set_inner_steps(4);
  const PlannedPipeline local = Row(inputs, "one_server");
  EXPECT_NEAR(local.link_seconds, each.link_seconds / 4, 1e-9);
  EXPECT_NEAR(local.pass_seconds, each.pass_seconds / 4, 1e-9);
  EXPECT_EQ(local.pipeline_seconds, each.pipeline_seconds);
  EXPECT_LT(local.step_seconds, each.step_seconds);
  EXPECT_GT(local.step_seconds, local.pipeline_seconds);
  inputs.split.parts.push_back({1, 0, {{0, 500000}}});
  EXPECT_GT(Row(inputs, "one_server").pipeline_seconds, 8 * 20e-3);
}

TEST(PipelinePlanTest, TheServersLinkCarriesAllReplicas) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kZeroBubble, 8);
  inputs.exchange.bandwidth = 1.25e9;
  const auto link = [&inputs](int workers, int servers, const char* key) {
    inputs.exchange.workers = workers;
    inputs.exchange.servers = servers;
    return Row(inputs, key).link_seconds;
  };
  const double model = 4.0 * kLayers * kLayerElements / 1.25e9 / kPayloadShare;
  EXPECT_NEAR(link(2, 1, "one_server"), model, 0.01 * model);
  EXPECT_NEAR(link(4, 1, "one_server"), 2 * model, 0.02 * model);
  EXPECT_NEAR(link(4, 4, "own_hosts"), model / 2, 0.01 * model);
}

// Each worker sends a part of its stage's gradients and of its weights to the
// other replicas.
TEST(PipelinePlanTest, AnAllReduceUsesTheLinksOfReplicas) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kZeroBubble, 8);
  inputs.exchange.bandwidth = 1e9;
  inputs.exchange.update_seconds_per_element = 3e-9;
  AllReduceSpec* const spec =
      inputs.exchange.job.mutable_exchange()->mutable_all_reduce();
  const double stage = kLayers / 2 * kLayerElements;
  const double stage_seconds = 4 * stage / 1e9 / kPayloadShare;
  // With one replica, the workers only update.
  inputs.exchange.pass_seconds_per_element = 3e-9;
  PlannedPipeline row = Row(inputs, "all_reduce");
  EXPECT_NEAR(row.link_seconds, 0, 1e-9);
  EXPECT_NEAR(row.pass_seconds, stage * 3e-9, 1e-9);
  for (const int replicas : {2, 4}) {
    inputs.exchange.workers = 2 * replicas;
    const double contributions = (replicas - 1) * 1e-9;
    inputs.exchange.pass_seconds_per_element = 3e-9 + contributions;
    for (const bool shard : {false, true}) {
      spec->set_shard_optimizer(shard);
      row = Row(inputs, "all_reduce");
      const double sent = 2.0 * (replicas - 1) / replicas;
      EXPECT_NEAR(row.link_seconds, sent * stage_seconds,
                  0.01 * row.link_seconds);
      EXPECT_NEAR(
          row.pass_seconds,
          stage * (contributions / replicas + 3e-9 / (shard ? replicas : 1)),
          1e-9);
      EXPECT_GT(row.step_seconds, row.pipeline_seconds);
      EXPECT_NEAR(Row(inputs, "one_host").pass_seconds,
                  2 * stage * (contributions + 3e-9 * (shard ? 1 : replicas)),
                  1e-9);
    }
  }
  // Another stage also reads the weights of a chunk.
  const double before = row.link_seconds;
  inputs.split.stages[1].read_chunks = {{0, 1}, {2, 4}};
  EXPECT_GT(Row(inputs, "all_reduce").link_seconds, before);
  AddWhole(&inputs);
  EXPECT_TRUE(Row(inputs, "all_reduce").whole_step_seconds.has_value());
}

TEST(PipelinePlanTest, ReplicasShareTheMicroBatches) {
  PipelineInputs inputs =
      TwoStages(PipelineSchedule::kOneForwardOneBackward, 8);
  const PipelinePlan one = *PlanPipeline(inputs);
  inputs.exchange.workers = 7;
  const PipelinePlan three = *PlanPipeline(inputs);
  EXPECT_EQ(three.shape.replicas, 3);
  EXPECT_EQ(three.shape.spares, 1);
  EXPECT_EQ(three.shape.micro_batches, 3);
  EXPECT_LT(three.rows[0].step_seconds, one.rows[0].step_seconds);
  EXPECT_GT(three.rows[0].bubble, one.rows[0].bubble);
}

TEST(PipelinePlanTest, CoresLimitOneHost) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kZeroBubble, 8);
  inputs.exchange.cores = 1;
  EXPECT_NEAR(Row(inputs, "one_host").step_seconds, 8 * 12e-3, 1e-4);
}

TEST(PipelinePlanTest, NamesTheFlagThatDoesNotFit) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kZeroBubble, 4);
  for (const int workers : {1, 10}) {
    inputs.exchange.workers = workers;
    EXPECT_THAT(
        PlanPipeline(inputs),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--workers")))
        << workers;
  }
}

TEST(PipelinePlanTest, ComparesWithTheWholeModel) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kGPipe, 8);
  inputs.whole_bytes = 48 * kLayerElements;
  inputs.free_bytes = 1000;
  EXPECT_FALSE(Row(inputs, "one_server").whole_step_seconds.has_value());
  EXPECT_FALSE(PipelinePlanJson(inputs, *PlanPipeline(inputs))
                   .at("whole_model_fits")
                   .get<bool>());

  // Workers that never wait for each other share the micro-batches.
  AddWhole(&inputs);
  const PlannedPipeline row = Row(inputs, "one_server");
  EXPECT_NEAR(row.whole_step_seconds.value(), 8 * 12e-3 / 2, 1e-4);
  EXPECT_LT(*row.whole_step_seconds, row.step_seconds);
  EXPECT_THAT(PlanPipeline(inputs)->advice, HasSubstr("leave"));
}

TEST(PipelinePlanTest, ScalesLayersToAMicroBatch) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kGPipe, 8);
  const double before = Row(inputs, "one_host").pipeline_seconds;
  ASSERT_EQ(ScaleLayers(18e-3, &inputs.stages), absl::OkStatus());
  EXPECT_NEAR(inputs.stages.balance.stages[1].seconds.total(), 9e-3, 1e-9);
  EXPECT_NEAR(Row(inputs, "one_host").pipeline_seconds, 1.5 * before, 1e-4);
}

TEST(PipelinePlanTest, PrintsStagesAndPlacements) {
  PipelineInputs inputs = TwoStages(PipelineSchedule::kZeroBubble, 8);
  AddWhole(&inputs);
  const PipelinePlan plan = *PlanPipeline(inputs);
  const std::string text = FormatPipelinePlan(inputs, plan);
  EXPECT_THAT(text, HasSubstr("layer0 to layer1"));
  EXPECT_THAT(text, HasSubstr(plan.rows[1].name));
  EXPECT_THAT(text, HasSubstr(plan.advice));

  const nlohmann::ordered_json json = PipelinePlanJson(inputs, plan);
  EXPECT_EQ(json["schedule"], "ZERO_BUBBLE");
  ASSERT_EQ(json["stages"].size(), 2u);
  EXPECT_EQ(json["stages"][1]["first_layer"], "layer2");
  EXPECT_EQ(json["stages"][0]["boundary_bytes"], kBoundaryBytes);
  EXPECT_NEAR(json["stages"][0]["forward_ms"].get<double>(), 2, 1e-9);
  EXPECT_EQ(json["placements"].size(), plan.rows.size());
}

}  // namespace
}  // namespace tributary
