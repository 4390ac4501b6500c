#include "worker/nn/weight_copies.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/device/reals.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/network.h"

namespace tributary {
namespace {

// Two inputs, two classes: weight [2, 2], bias [2].
Graph OneLayer() {
  Graph graph(2);
  const ValueId logits =
      graph.Add("layer", std::make_unique<Linear>(Linear::FanInOptions(2, 2)),
                {graph.input()});
  graph.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, 2}, logits);
  return graph;
}

class WeightCopiesTest : public testing::Test {
 protected:
  WeightCopiesTest() {
    ParameterTable table = graph_.table();
    table.set_chunk_elements(16);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    weights_.assign(layout_->arena_elements(), 0.5f);
  }

  static float First(Device* device, const Real* numbers) {
    float first = 0;
    EXPECT_TRUE(CopyRealsToHost(device, numbers, 1, &first).ok());
    return first;
  }

  const Graph graph_ = OneLayer();
  std::unique_ptr<ArenaLayout> layout_;
  std::vector<float> weights_;
  const std::unique_ptr<Device> device_ = CreateCpuDevice(Precision::kBfloat16);
};

TEST_F(WeightCopiesTest, AreTheWeightsThemselvesInFloat32) {
  const std::unique_ptr<Device> device = CreateCpuDevice();
  WeightCopies copies;
  ASSERT_TRUE(copies.Prepare(graph_, *layout_, device.get()).ok());
  EXPECT_EQ(copies.memory_bytes(), 0);
  EXPECT_EQ(copies.Get(device.get(), 0, weights_.data()),
            AsReals(weights_.data()));
}

TEST_F(WeightCopiesTest, AreMadeOnceAfterEachRenewal) {
  WeightCopies copies;
  for (int network = 0; network < 2; ++network) {
    ASSERT_TRUE(copies.Prepare(graph_, *layout_, device_.get()).ok());
  }
  EXPECT_EQ(copies.memory_bytes(), 64);  // Of the weight alone.
  const Real* const copy = copies.Get(device_.get(), 0, weights_.data());
  EXPECT_EQ(First(device_.get(), copy), 0.5f);
  weights_[0] = 2;
  EXPECT_EQ(copies.Get(device_.get(), 0, weights_.data()), copy);
  EXPECT_EQ(First(device_.get(), copy), 0.5f);
  copies.Renew();
  copies.Get(device_.get(), 0, weights_.data());
  EXPECT_EQ(First(device_.get(), copy), 2.0f);
}

TEST_F(WeightCopiesTest, MayBeAskedForByManyThreads) {
  WeightCopies copies;
  ASSERT_TRUE(copies.Prepare(graph_, *layout_, device_.get()).ok());
  std::vector<float> seen(4);
  std::vector<std::thread> threads;
  for (float& value : seen) {
    threads.emplace_back([&] {
      const std::unique_ptr<Device> device =
          CreateCpuDevice(Precision::kBfloat16);
      value = First(device.get(), copies.Get(device.get(), 0, weights_.data()));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, std::vector<float>(4, 0.5f));
}

TEST_F(WeightCopiesTest, NetworksRenewTheirOwnInEveryCall) {
  WeightCopies shared;
  const auto own = Network::Create(OneLayer(), 1, device_.get());
  const auto sharing = Network::Create(OneLayer(), 1, device_.get(), &shared);
  ASSERT_TRUE(own.ok() && sharing.ok()) << own.status() << sharing.status();
  EXPECT_EQ((*own)->memory_bytes(), (*sharing)->memory_bytes() + 64);
  const float input[] = {1, -1};
  const int32_t target = 0;
  const MicroBatchInput micro_batch = {1, input, &target};
  const double before = (*own)->Evaluate(micro_batch, weights_.data())->loss;
  EXPECT_EQ((*sharing)->Evaluate(micro_batch, weights_.data())->loss, before);
  weights_[0] = 2;
  const double after = (*own)->Evaluate(micro_batch, weights_.data())->loss;
  EXPECT_LT(after, before);
  EXPECT_EQ((*sharing)->Evaluate(micro_batch, weights_.data())->loss, before);
  shared.Renew();
  EXPECT_EQ((*sharing)->Evaluate(micro_batch, weights_.data())->loss, after);
}

}  // namespace
}  // namespace tributary
