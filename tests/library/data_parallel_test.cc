#include "tributary/data_parallel.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tributary/nn.h"
#include "worker/nn/network.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr int64_t kInputs = 6;
constexpr int32_t kClasses = 3;

Graph MakeGraphWith(float dropout) {
  Graph graph(kInputs);
  ValueId value = graph.Add(
      "hidden", std::make_unique<Linear>(Linear::FanInOptions(kInputs, 8)),
      {graph.input()});
  value = graph.Add("relu", std::make_unique<Relu>(8), {value});
  value = graph.Add("dropout", std::make_unique<Dropout>(8, dropout), {value});
  value = graph.Add("output",
                    std::make_unique<Linear>(Linear::FanInOptions(8, kClasses)),
                    {value});
  graph.SetLoss(LossSpec::SoftmaxCrossEntropy(kClasses), value);
  return graph;
}

Graph MakeGraph() { return MakeGraphWith(0.25f); }
Graph MakeSmoothGraph() { return MakeGraphWith(0); }

struct Samples {
  explicit Samples(int64_t count) {
    for (int64_t i = 0; i < count * kInputs; ++i) {
      input.push_back(std::sin(static_cast<float>(3 * i)));
    }
    for (int64_t i = 0; i < count; ++i) {
      target.push_back(static_cast<int32_t>(i * i % kClasses));
    }
  }
  HostBatch batch() const {
    return {static_cast<int64_t>(target.size()), input.data(), target.data()};
  }

  std::vector<float> input;
  std::vector<int32_t> target;
};

Replicas OnCpus(int count) {
  absl::StatusOr<Replicas> replicas =
      Replicate(&MakeGraph, std::vector<std::string>(count, "cpu"),
                /*micro_batch_samples=*/8);
  EXPECT_TRUE(replicas.ok()) << replicas.status();
  return *std::move(replicas);
}

GatheredOutput Apply(const HostBatch& batch, const ApplyOptions& options,
                     int devices, int micro_batches = 4) {
  Replicas replicas = OnCpus(devices);
  const std::vector<float> weights = replicas[0]->InitialWeights(/*seed=*/5);
  EXPECT_TRUE(SetWeights(weights, &replicas).ok());
  const auto scattered = Scatter(batch, micro_batches, replicas);
  EXPECT_TRUE(scattered.ok()) << scattered.status();
  auto outputs = ParallelApply(*scattered, options, &replicas);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  const auto gathered = Gather(*std::move(outputs));
  EXPECT_TRUE(gathered.ok()) << gathered.status();
  return *gathered;
}

TEST(DataParallelTest, GradientsHaveTheSameBitsForAnyNumberOfDevices) {
  // The last micro-batch is smaller.
  const Samples samples(/*count=*/27);
  const ApplyOptions options = {/*seed=*/3, /*step=*/7, /*backward=*/true};
  const GatheredOutput one = Apply(samples.batch(), options, /*devices=*/1);
  EXPECT_EQ(one.sample_count, 27);
  EXPECT_GT(one.loss, 0);
  for (const int devices : {2, 3, 4}) {
    const GatheredOutput many = Apply(samples.batch(), options, devices);
    EXPECT_EQ(many.loss, one.loss) << devices;
    EXPECT_EQ(many.correct, one.correct) << devices;
    EXPECT_EQ(many.gradient, one.gradient) << devices;
  }
}

TEST(DataParallelTest, TheGradientIsThatOfTheMeanLoss) {
  const Samples samples(/*count=*/16);
  const ApplyOptions evaluation = {/*seed=*/1, /*step=*/0, /*backward=*/false};
  absl::StatusOr<Replicas> replicas =
      Replicate(&MakeSmoothGraph, {"cpu", "cpu"}, /*micro_batch_samples=*/8);
  ASSERT_TRUE(replicas.ok());
  std::vector<float> weights = replicas->front()->InitialWeights(/*seed=*/5);
  const auto apply = [&](const ApplyOptions& options) {
    EXPECT_TRUE(SetWeights(weights, &*replicas).ok());
    const auto scattered = Scatter(samples.batch(), 4, *replicas);
    return *Gather(*ParallelApply(*scattered, options, &*replicas));
  };
  const std::vector<float> gradient = apply({}).gradient;
  constexpr float kStep = 1e-2f;
  for (const ParameterPlace& parameter : replicas->front()->parameters()) {
    for (int64_t i = 0; i < parameter.size; i += 5) {
      const auto element = static_cast<size_t>(parameter.offset + i);
      const float value = weights[element];
      weights[element] = value + kStep;
      double change = apply(evaluation).loss;
      weights[element] = value - kStep;
      change -= apply(evaluation).loss;
      weights[element] = value;
      EXPECT_NEAR(gradient[element], change / (2 * kStep), 2e-3)
          << parameter.name << " " << i;
    }
  }
}

TEST(DataParallelTest, PredictionsAreInTheOrderOfTheSamples) {
  const Samples samples(/*count=*/13);
  HostBatch batch = samples.batch();
  batch.target = nullptr;
  const ApplyOptions options = {/*seed=*/1, /*step=*/0, /*backward=*/false};
  const GatheredOutput one = Apply(batch, options, /*devices=*/1);
  EXPECT_THAT(one.predictions, SizeIs(13 * kClasses));
  EXPECT_THAT(one.gradient, SizeIs(0));
  EXPECT_EQ(Apply(batch, options, /*devices=*/3).predictions, one.predictions);
  // Sample by sample.
  for (int64_t i = 0; i < batch.samples; ++i) {
    const HostBatch single = {1, samples.input.data() + i * kInputs, nullptr};
    const GatheredOutput alone =
        Apply(single, options, /*devices=*/2, /*micro_batches=*/1);
    ASSERT_THAT(alone.predictions, SizeIs(kClasses));
    for (int32_t c = 0; c < kClasses; ++c) {
      EXPECT_NEAR(alone.predictions[c], one.predictions[i * kClasses + c],
                  1e-5);
    }
  }
}

TEST(DataParallelTest, ScatterGivesEachReplicaConsecutiveMicroBatches) {
  const Samples samples(/*count=*/10);
  const Replicas replicas = OnCpus(3);
  const auto scattered = Scatter(samples.batch(), 4, replicas);
  ASSERT_TRUE(scattered.ok());
  std::vector<std::vector<int>> numbers;
  std::vector<int64_t> sizes;
  for (const auto& part : scattered->parts) {
    numbers.emplace_back();
    for (const NumberedBatch& item : part) {
      numbers.back().push_back(item.number);
      sizes.push_back(item.batch.samples);
    }
  }
  EXPECT_THAT(numbers,
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2, 3)));
  EXPECT_THAT(sizes, ElementsAre(3, 3, 3, 1));
}

TEST(DataParallelTest, RefusesWhatDoesNotFit) {
  const Samples samples(/*count=*/40);
  Replicas replicas = OnCpus(2);
  EXPECT_TRUE(absl::IsInvalidArgument(
      Replicate(&MakeGraph, {}, /*micro_batch_samples=*/8).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      Replicate(&MakeGraph, {"gpu"}, /*micro_batch_samples=*/8).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(SetWeights(std::vector<float>(3), &replicas)));
  // No power of two, and too many samples for a micro-batch.
  EXPECT_TRUE(
      absl::IsInvalidArgument(Scatter(samples.batch(), 3, replicas).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(Scatter(samples.batch(), 4, replicas).status()));
  const auto scattered = Scatter(samples.batch(), 8, replicas);
  ASSERT_TRUE(scattered.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      ParallelApply(*scattered, {}, &replicas).status()));
  const std::vector<float> weights = replicas[0]->InitialWeights(/*seed=*/5);
  ASSERT_TRUE(SetWeights(weights, &replicas).ok());
  auto outputs = ParallelApply(*scattered, {}, &replicas);
  ASSERT_TRUE(outputs.ok());
  std::swap((*outputs)[0], (*outputs)[1]);
  EXPECT_TRUE(absl::IsInvalidArgument(Gather(*std::move(outputs)).status()));
}

}  // namespace
}  // namespace tributary
