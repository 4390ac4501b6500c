// A model that is computed in groups of layers has the bits of the whole model,
// and reads only the weights of one group at a time.
#include "worker/models/stages/layerwise_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_jobs.h"
#include "worker/models/model.h"
#include "worker/nn/gradient_sink.h"
#include "worker/training/evaluator.h"
#include "worker/training/training_batches.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

// Requires that gradients become final from the end of the arena on.
class DescendingSink final : public GradientSink {
 public:
  using GradientSink::GradientSink;
  void Ready(int64_t begin) override {
    EXPECT_LE(begin, begin_);
    begin_ = begin;
  }
  int64_t begin() const { return begin_; }

 private:
  int64_t begin_ = INT64_MAX;
};

class LayerwiseModelTest
    : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  static constexpr int kSlots = 3;

  LayerwiseModelTest() {
    const JobSpec job =
        ResolveJob(TinyJob(std::get<0>(GetParam()), testing::TempDir()));
    setup_ = *TrainingSetup::Create(job, /*threads=*/1);
    weights_.resize(setup_->layout().arena_elements());
    EXPECT_TRUE(setup_->MakeInitialWeights(weights_.data()).ok());
    visible_.assign(weights_.size(), NAN);
    auto model = LayerwiseModel::Create(
        [this] { return setup_->BuildGraph(); }, setup_->layout(),
        setup_->data().info(), setup_->max_samples(), setup_->device(0),
        std::get<1>(GetParam()));
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    EXPECT_TRUE(model_->AddSlots(kSlots).ok());
  }

  // Makes the group's weights readable, and all others NaN.
  void Show(int group) {
    visible_.assign(weights_.size(), NAN);
    const ArenaLayout& layout = setup_->layout();
    for (const StageSplit::Range& range : model_->group(group).read_chunks) {
      for (int64_t chunk = range.begin; chunk < range.end; ++chunk) {
        const int64_t begin = layout.ChunkBegin(static_cast<int>(chunk));
        std::copy_n(weights_.begin() + begin,
                    layout.ChunkSize(static_cast<int>(chunk)),
                    visible_.begin() + begin);
      }
    }
  }

  Batch BatchOf(int64_t step, int micro_batch) const {
    TrainingBatches batches(setup_.get());
    return *batches.Take(/*thread=*/0, step, micro_batch);
  }

  std::unique_ptr<TrainingSetup> setup_;
  std::unique_ptr<LayerwiseModel> model_;
  std::vector<float> weights_;
  std::vector<float> visible_;
};

TEST_P(LayerwiseModelTest, HasTheGradientsOfTheWholeModel) {
  constexpr int64_t kStep = 2;
  const uint64_t seed = setup_->job().seed();
  const int last = model_->groups() - 1;
  EXPECT_GE(last, 1);
  const WeightsView view(visible_.data());
  std::vector<Batch> batches;
  std::vector<std::vector<float>> gradients(
      kSlots, std::vector<float>(weights_.size(), NAN));
  std::vector<std::unique_ptr<DescendingSink>> sinks;
  std::vector<NetworkPass::MicroBatch> micro_batches;
  for (int slot = 0; slot < kSlots; ++slot) {
    batches.push_back(BatchOf(kStep, slot));
    sinks.push_back(std::make_unique<DescendingSink>(
        gradients[slot].data(), SampleCountOf(batches[slot])));
    micro_batches.push_back({seed, kStep, slot, &view, sinks[slot].get(),
                             nullptr, SampleCountOf(batches[slot])});
  }
  for (int group = 0; group < last; ++group) {
    Show(group);
    for (int slot = 0; slot < kSlots; ++slot) {
      ASSERT_TRUE(
          model_->Forward(group, slot, batches[slot], micro_batches[slot])
              .ok());
    }
  }
  std::vector<LossSums> losses(kSlots);
  Show(last);
  for (int slot = kSlots - 1; slot >= 0; --slot) {
    const auto loss = model_->Turn(slot, batches[slot], micro_batches[slot]);
    ASSERT_TRUE(loss.ok()) << loss.status();
    losses[slot] = *loss;
  }
  for (int group = last - 1; group >= 0; --group) {
    Show(group);
    for (int slot = 0; slot < kSlots; ++slot) {
      ASSERT_TRUE(model_->Backward(group, slot).ok());
      EXPECT_LE(sinks[slot]->begin(), model_->group(group).elements.begin);
    }
  }
  // A model of its own: that of `setup_` has the same job.
  const WeightsView all(weights_.data());
  std::vector<float> wanted(weights_.size(), NAN);
  for (int slot = 0; slot < kSlots; ++slot) {
    GradientSink sink(wanted.data(), SampleCountOf(batches[slot]));
    const auto loss = setup_->model(0)->ForwardBackward(
        batches[slot], seed, kStep, slot, all, &sink, nullptr);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_EQ(loss->loss, losses[slot].loss);
    EXPECT_EQ(std::memcmp(wanted.data(), gradients[slot].data(),
                          wanted.size() * sizeof(float)),
              0)
        << "micro-batch " << slot;
  }
}

TEST_P(LayerwiseModelTest, HasTheEvaluationOfTheWholeModel) {
  const int pieces =
      std::min(kSlots, static_cast<int>(setup_->facts().evaluation_pieces()));
  std::vector<Batch> batches(pieces);
  std::vector<LossSums> sums(pieces);
  for (int piece = 0; piece < pieces; ++piece) {
    const EvaluatedSamples samples(*setup_, piece);
    setup_->data().ReadEvaluation(samples.begin, samples.end, &batches[piece]);
  }
  for (int group = 0; group < model_->groups(); ++group) {
    Show(group);
    for (int piece = 0; piece < pieces; ++piece) {
      ASSERT_TRUE(model_
                      ->Evaluate(group, piece, batches[piece], visible_.data(),
                                 &sums[piece])
                      .ok());
    }
  }
  for (int piece = 0; piece < pieces; ++piece) {
    const auto wanted =
        setup_->model(0)->Evaluate(batches[piece], weights_.data());
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    EXPECT_EQ(sums[piece].loss, wanted->loss);
    EXPECT_EQ(sums[piece].correct, wanted->correct);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LayerwiseModelTest,
                         testing::Combine(testing::Values("mlp", "gpt",
                                                          "resnet", "bert"),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)) +
                                  (std::get<1>(info.param) ? "Recomputing"
                                                           : "");
                         });

}  // namespace
}  // namespace tributary
