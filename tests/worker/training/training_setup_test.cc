#include "worker/training/training_setup.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

JobSpec ExternalJob() {
  return ResolveJob(*ParseJob(R"(
      model { external { name: "averages" } }
      data {
        external { train_samples: 100 evaluation_samples: 33 unit: "ratings"
                   fingerprint: 7 units_per_sample: 4 }
      }
      batch { global: 16 }
      optimizer { sgd { learning_rate: 0.1 } }
      epochs: 2)",
                              "job"));
}

// A model of one parameter, of group `group`.
class OneParameter final : public Model {
 public:
  explicit OneParameter(OptimizerGroup group) {
    ParameterTable::Parameter* const parameter = table_.add_parameter();
    parameter->set_name("mean");
    parameter->add_shape(3);
    parameter->set_group(group);
  }

  const ParameterTable& table() const override { return table_; }
  int64_t memory_bytes() const override { return 0; }
  void Initialize(uint64_t, const ArenaLayout& layout,
                  float* weights) const override {
    std::fill_n(weights, layout.arena_elements(), 0.0f);
  }
  absl::StatusOr<LossSums> ForwardBackward(const Batch&, uint64_t, int64_t, int,
                                           const WeightsView&, GradientSink*,
                                           StepObserver*) override {
    return LossSums();
  }
  absl::StatusOr<LossSums> Evaluate(const Batch&, const float*) override {
    return LossSums();
  }
  absl::Status NextTokenLogits(absl::Span<const int32_t>, const float*,
                               absl::Span<float>) override {
    return absl::UnimplementedError("");
  }

 private:
  ParameterTable table_;
};

TrainingSources SourcesOf(OptimizerGroup group) {
  TrainingSources sources;
  sources.create_model =
      [group](const ModelSpec&, const DataInfo& info, int64_t, Device*,
              WeightCopies*,
              const NetworkPart&) -> absl::StatusOr<std::unique_ptr<Model>> {
    EXPECT_EQ(info.kind, DataInfo::Kind::kIndexes);
    return std::make_unique<OneParameter>(group);
  };
  sources.plan_model = [](const ModelSpec&, const DataInfo&, int64_t,
                          const Device&,
                          const NetworkPart&) -> absl::StatusOr<ModelMemory> {
    return ModelMemory{/*activation_bytes=*/1000, /*arena_bytes=*/64};
  };
  return sources;
}

TEST(TrainingSetupTest, ReportsTheFactsThatTheJobStatesOfExternalData) {
  const auto setup = TrainingSetup::Create(ExternalJob(), /*threads=*/1,
                                           &MakeCpuDevice, SourcesOf(NO_DECAY));
  ASSERT_TRUE(setup.ok()) << setup.status();
  const DataFacts& facts = (*setup)->facts();
  EXPECT_EQ(facts.train_samples(), 100);
  EXPECT_EQ(facts.steps_per_epoch(), 7);
  EXPECT_EQ(facts.steps(), 14);
  EXPECT_EQ(facts.evaluation_pieces(), 3);
  EXPECT_EQ(facts.unit(), "ratings");
  EXPECT_EQ(facts.fingerprint(), 7u);
  EXPECT_EQ((*setup)->thread_memory().total(), 1064);
}

TEST(TrainingSetupTest, RefusesAModelThatTheProgramDoesNotHave) {
  EXPECT_THAT(
      TrainingSetup::Create(ExternalJob(), /*threads=*/1),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr(
                   "model.external: this program has no model \"averages\"")));
}

TEST(TrainingSetupTest, TheFirstGroupThatMatchesAppliesToAParameter) {
  JobSpec job = TinyJob("mlp", testing::TempDir());
  ParameterGroupSpec* group = job.mutable_optimizer()->add_group();
  group->add_parameters("hidden.0.*");
  group->set_learning_rate_factor(0.5);
  group = job.mutable_optimizer()->add_group();
  group->add_parameters("*.weight");
  group->set_learning_rate_factor(2);
  group->set_weight_decay(false);
  InitialWeightsSpec* initial = job.mutable_model()->mutable_initial_weights();
  initial->set_path("unread");
  initial->add_freeze("output.weight");
  const auto setup = TrainingSetup::Create(ResolveJob(job), /*threads=*/1);
  ASSERT_TRUE(setup.ok()) << setup.status();
  std::map<std::string, std::pair<float, OptimizerGroup>> parameters;
  for (const Parameter& parameter : (*setup)->layout().parameters()) {
    parameters[parameter.name] = {parameter.learning_rate_factor,
                                  parameter.group};
  }
  EXPECT_EQ(parameters["hidden.0.weight"], std::make_pair(0.5f, DECAY));
  EXPECT_EQ(parameters["hidden.0.bias"], std::make_pair(0.5f, NO_DECAY));
  EXPECT_EQ(parameters["output.weight"], std::make_pair(1.0f, NO_DECAY));
  EXPECT_EQ(parameters["output.bias"], std::make_pair(1.0f, NO_DECAY));

  group->add_parameters("conv.*");
  EXPECT_THAT(
      TrainingSetup::Create(ResolveJob(job), /*threads=*/1).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr("optimizer.group[1].parameters: 'conv.*' "
                                  "matches no parameter")));
}

TEST(TrainingSetupTest, AProgramThatComputesTheModelSetsItsOwnWeights) {
  TrainingSources sources = SourcesOf(NO_DECAY);
  sources.queues_micro_batches = true;
  JobSpec job = ExternalJob();
  job.mutable_model()->mutable_initial_weights()->set_path("weights");
  EXPECT_THAT(TrainingSetup::Create(job, /*threads=*/1, &MakeCpuDevice, sources)
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("model.initial_weights ")));
}

TEST(TrainingSetupTest, RefusesStatisticsThatAreCompressed) {
  JobSpec job = ExternalJob();
  job.mutable_exchange()->mutable_compression()->mutable_eight_bit();
  EXPECT_TRUE(TrainingSetup::Create(job, /*threads=*/1, &MakeCpuDevice,
                                    SourcesOf(DECAY))
                  .ok());
  EXPECT_THAT(TrainingSetup::Create(job, /*threads=*/1, &MakeCpuDevice,
                                    SourcesOf(STATISTICS)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("exchange.compression: ")));
}

}  // namespace
}  // namespace tributary
