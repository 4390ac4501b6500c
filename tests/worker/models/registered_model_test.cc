// Models that a program has registered, through CreateModel.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/support/status_matchers.h"
#include "worker/device/device.h"
#include "worker/models/model.h"
#include "worker/models/model_registry.h"
#include "worker/nn/layers/linear.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A linear model of the loss that `config` names.
absl::StatusOr<Graph> BuildLine(Config* config, const DataInfo&) {
  const int64_t inputs = config->Integer("inputs", 4, 1, 100);
  LossSpec loss;
  loss.width = config->Integer("outputs", 3, 1, 100);
  if (config->Flag("regression", false)) {
    loss.kind = LossSpec::Kind::kMeanSquaredError;
  }
  if (config->Flag("binary", false)) loss = LossSpec::BinaryCrossEntropy();
  if (config->Flag("broken", false)) {
    return absl::InvalidArgumentError("line: broken");
  }
  Graph graph(inputs);
  std::unique_ptr<Layer> layer;
  if (!config->Flag("null", false)) {
    layer = std::make_unique<Linear>(Linear::FanInOptions(inputs, loss.width));
  }
  const ValueId value = graph.Add("line", std::move(layer), {graph.input()});
  if (!config->Flag("no_loss", false)) graph.SetLoss(loss, value);
  return graph;
}

class RegisteredModelTest : public ::testing::Test {
 protected:
  RegisteredModelTest() {
    registry_.Add("line", &BuildLine);
    info_.sample_shape = {2, 2};
    info_.classes = 3;
  }

  // Expects that the model is refused with a message that contains `words`.
  void ExpectRefused(const std::string& config, const std::string& words,
                     const std::string& name = "line") {
    ModelSpec spec;
    spec.mutable_external()->set_name(name);
    spec.mutable_external()->set_config(config);
    const absl::Status status =
        CreateModel(spec, info_, /*max_samples=*/2, device_.get(),
                    /*copies=*/nullptr, registry_)
            .status();
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(words)));
    EXPECT_EQ(PlanModelMemory(spec, info_, 2, *device_, registry_).status(),
              status);
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  ModelRegistry registry_;
  DataInfo info_;
};

TEST_F(RegisteredModelTest, IsCreatedAndPlanned) {
  ModelSpec spec;
  spec.mutable_external()->set_name("line");
  const auto model = CreateModel(spec, info_, /*max_samples=*/2, device_.get(),
                                 /*copies=*/nullptr, registry_);
  ASSERT_TRUE(model.ok()) << model.status();
  const ParameterTable& table = (*model)->table();
  ASSERT_EQ(table.parameter_size(), 2);
  EXPECT_EQ(table.parameter(0).name(), "line.weight");
  EXPECT_THAT(table.parameter(0).shape(), ElementsAre(3, 4));
  EXPECT_EQ(table.parameter(0).group(), DECAY);
  EXPECT_EQ(table.parameter(1).group(), NO_DECAY);
  const auto memory = PlanModelMemory(spec, info_, 2, *device_, registry_);
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->arena_bytes, 2 * 16 * 4);
}

TEST_F(RegisteredModelTest, UnknownNamesAreRefused) {
  ExpectRefused("{}", "no model \"lien\"; did you mean line?", "lien");
  ExpectRefused("{}", "no model \"factorization\"", "factorization");
  registry_.Add("curve", nullptr);
  ExpectRefused("{}", "\"curve\" was registered", "curve");
}

TEST_F(RegisteredModelTest, MistakesInTheConfigAreRefused) {
  ExpectRefused(R"({"inputs": 0})", "model.external.config: inputs is 0");
  ExpectRefused(R"({"input": 4})", "config: there is no member input");
  ExpectRefused(R"({"broken": true})", "line: broken");
  ExpectRefused(R"({"null": true})", "line: the layer is null");
}

TEST_F(RegisteredModelTest, ModelsThatDoNotFitTheDataAreRefused) {
  ExpectRefused(R"({"inputs": 5})", "\"line\" takes 5 numbers per sample");
  ExpectRefused(R"({"outputs": 2})", "\"line\" predicts 2 classes");
  ExpectRefused(R"({"regression": true})", "\"line\" predicts numbers");
  ExpectRefused(R"({"binary": true})", "\"line\" minimizes binary");
  ExpectRefused(R"({"no_loss": true})", "\"line\" has no loss");
  info_.classes = 0;
  ExpectRefused("{}", "\"line\" predicts classes");
  info_.kind = DataInfo::Kind::kIndexes;
  ExpectRefused("{}", "\"line\" computes from samples");
}

// Internal would mean that a device has failed, and the worker would be
// restarted.
TEST_F(RegisteredModelTest, AnInternalErrorOfTheFactoryIsNoDeviceFailure) {
  registry_.Add("broken",
                [](Config*, const DataInfo&) -> absl::StatusOr<Graph> {
                  return absl::InternalError("broken: no kernel");
                });
  ModelSpec spec;
  spec.mutable_external()->set_name("broken");
  EXPECT_EQ(CreateModel(spec, info_, /*max_samples=*/2, device_.get(),
                        /*copies=*/nullptr, registry_)
                .status(),
            absl::FailedPreconditionError("broken: no kernel"));
}

TEST(ModelRegistryTest, RemembersANameThatWasAddedTwice) {
  ModelRegistry registry;
  registry.Add("line", &BuildLine).Add("curve", &BuildLine);
  EXPECT_TRUE(registry.status().ok());
  EXPECT_THAT(registry.names(), ElementsAre("curve", "line"));
  registry.Add("line", &BuildLine);
  EXPECT_THAT(registry.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          HasSubstr("\"line\"")));
}

}  // namespace
}  // namespace tributary
