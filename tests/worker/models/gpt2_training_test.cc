// Ten training steps of a GPT-2 against transformers; make_gpt2_golden.py
// writes the files.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/optimizer/update_recipe.h"
#include "common/tensor_io/tensor_files.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"
#include "worker/models/initial_weights.h"

namespace tributary {
namespace {

constexpr int64_t kSteps = 10, kBatch = 3, kContext = 8, kVocabulary = 32;

class Gpt2TrainingTest : public testing::Test {
 protected:
  Gpt2TrainingTest()
      : harness_(ParseModel("gpt { layers: 2 heads: 2 width: 16 context: 8 "
                            "vocabulary: 32 }"),
                 TokenInfo(kContext, kVocabulary), kBatch) {
    InitialWeightsSpec spec;
    spec.set_path("tests/worker/models/golden/gpt2");
    EXPECT_EQ(LoadInitialWeights(spec, harness_.layout(), harness_.weights()),
              absl::OkStatus());
  }

  static std::vector<float> Golden(const std::string& name, int64_t size) {
    std::vector<float> values(size);
    const auto files =
        TensorFiles::Open("tests/worker/models/golden/gpt2/steps.safetensors");
    EXPECT_TRUE(files.ok()) << files.status();
    EXPECT_TRUE(files->ReadFloats(name, absl::MakeSpan(values)).ok());
    return values;
  }

  // Trains with the optimizer, and compares the loss of each step.
  void ExpectLosses(const OptimizerSpec& spec, const std::string& name) {
    const int64_t sample = kBatch * kContext;
    const std::vector<float> tokens = Golden("tokens", kSteps * sample);
    const std::vector<float> labels = Golden("labels", kSteps * sample);
    const std::vector<float> expected = Golden(name, kSteps);
    JobSpec job;
    *job.mutable_optimizer() = spec;
    const UpdateRecipe recipe(job, kSteps, kStatisticsRate);
    const auto optimizer = Optimizer::Create(spec);
    ASSERT_TRUE(optimizer.ok()) << optimizer.status();
    const int64_t elements = harness_.layout().arena_elements();
    std::vector<std::vector<float>> state((*optimizer)->slots(),
                                          std::vector<float>(elements));
    for (int64_t step = 0; step < kSteps; ++step) {
      Batch batch;
      batch.samples = kBatch;
      const auto begin = step * sample, end = begin + sample;
      batch.tokens.assign(tokens.begin() + begin, tokens.begin() + end);
      batch.labels.assign(labels.begin() + begin, labels.begin() + end);
      const LossSums loss = harness_.Step(batch);
      EXPECT_NEAR(loss.loss / static_cast<double>(sample), expected[step],
                  1e-5 * expected[step])
          << "step " << step;
      Update((*optimizer)->At(recipe.At(step, sample, /*norm=*/0)), &state);
    }
    // Training has an effect that this test would notice.
    EXPECT_GT(std::abs(expected[0] - expected[kSteps - 1]), 0.1);
  }

  void Update(const OptimizerStep& step,
              std::vector<std::vector<float>>* state) {
    const ArenaLayout& layout = harness_.layout();
    std::vector<ChunkSegment> segments;
    for (const Parameter& parameter : layout.parameters()) {
      segments.push_back({parameter.offset, parameter.offset + parameter.size,
                          parameter.group});
    }
    std::vector<float*> slots;
    for (std::vector<float>& slot : *state) slots.push_back(slot.data());
    const std::vector<float> weights(
        harness_.weights(), harness_.weights() + layout.arena_elements());
    UpdateArguments arguments;
    arguments.gradient_sum = harness_.gradients();
    arguments.weights = weights.data();
    arguments.new_weights = harness_.weights();
    arguments.slots = absl::MakeSpan(slots);
    arguments.segments = segments;
    step.Update(arguments);
  }

  ModelHarness harness_;
};

TEST_F(Gpt2TrainingTest, SgdHasTheLossesOfTransformers) {
  OptimizerSpec spec;
  spec.mutable_sgd()->set_learning_rate(0.1);
  spec.mutable_sgd()->set_momentum(0.9);
  ExpectLosses(spec, "sgd");
}

TEST_F(Gpt2TrainingTest, AdamwHasTheLossesOfTransformers) {
  OptimizerSpec spec;
  spec.mutable_adamw()->set_learning_rate(0.01);
  spec.mutable_adamw()->set_weight_decay(0.1);
  ExpectLosses(spec, "adamw");
}

}  // namespace
}  // namespace tributary
