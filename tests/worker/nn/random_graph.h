// Random networks, and micro-batches for them.
#ifndef TRIBUTARY_TESTS_WORKER_NN_RANDOM_GRAPH_H_
#define TRIBUTARY_TESTS_WORKER_NN_RANDOM_GRAPH_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/device/device.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"
#include "worker/nn/network.h"

namespace tributary {

inline constexpr int64_t kLayerSize = 6;  // Of every value.
inline constexpr int64_t kClasses = 4;
inline constexpr int64_t kMaxSamples = 5;
inline constexpr uint64_t kSeed = 9;

// A random graph in which values have several readers, in any order.
class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed), graph_(kLayerSize) {}

  Graph Build() && {
    Add(0);
    const int layers = 3 + Below(12);
    for (int i = 0; i < layers; ++i) Add(Below(7));
    // What nobody has read yet comes together.
    ValueId sum = unused_.back();
    unused_.pop_back();
    for (const ValueId value : unused_) {
      sum = graph_.Add(absl::StrCat("sum", value),
                       std::make_unique<Residual>(kLayerSize),
                       Below(2) == 0 ? std::vector<ValueId>{sum, value}
                                     : std::vector<ValueId>{value, sum});
    }
    sum = graph_.Add(
        "output",
        std::make_unique<Linear>(Linear::FanInOptions(kLayerSize, kClasses)),
        {sum});
    if (Below(4) == 0) {
      sum = graph_.Add("last", std::make_unique<Relu>(kClasses), {sum});
    }
    graph_.SetLoss({LossSpec::Kind::kSoftmaxCrossEntropy, 1, kClasses}, sum);
    return std::move(graph_);
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % limit); }

  // Mostly a late value, so that graphs get deep; sometimes the data.
  ValueId Pick() {
    const int count = static_cast<int>(graph_.values().size());
    return count - 1 - Below(std::min(count, 1 + Below(5)));
  }

  void Add(int kind) {
    const std::string name = absl::StrCat("layer", graph_.nodes().size());
    std::vector<ValueId> inputs = {Pick()};
    std::unique_ptr<Layer> layer;
    if (kind == 2) layer = std::make_unique<Relu>(kLayerSize);
    if (kind == 3) layer = std::make_unique<Gelu>(kLayerSize);
    if (kind == 4) layer = std::make_unique<Dropout>(kLayerSize, 0.4f);
    if (kind == 5) layer = std::make_unique<LayerNorm>(1, kLayerSize, true);
    if (kind == 6) {
      layer = std::make_unique<Residual>(kLayerSize);
      inputs.push_back(Pick());
    }
    const bool linear = layer == nullptr;
    if (linear) {
      layer = std::make_unique<Linear>(
          Linear::FanInOptions(kLayerSize, kLayerSize));
    }
    for (const ValueId input : inputs) {
      unused_.erase(std::remove(unused_.begin(), unused_.end(), input),
                    unused_.end());
    }
    const bool tied = linear && !linears_.empty() && Below(3) == 0;
    unused_.push_back(tied ? graph_.AddTied(name, std::move(layer), inputs,
                                            linears_.front() + ".weight")
                           : graph_.Add(name, std::move(layer), inputs));
    if (linear && !tied) linears_.push_back(name);
  }

  std::mt19937 random_;
  Graph graph_;
  std::vector<ValueId> unused_;
  std::vector<std::string> linears_;
};

// Records where the gradients of a micro-batch become final.
class Reported final : public GradientSink {
 public:
  explicit Reported(std::vector<float>* gradients)
      : GradientSink(gradients->data()) {}
  void Ready(int64_t begin) override { ready.push_back(begin); }
  std::vector<int64_t> ready;
};

// A network of a random graph, with initial weights and samples.
class RandomNetworkTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    auto network = Network::Create(RandomGraph(GetParam()).Build(), kMaxSamples,
                                   device_.get());
    ASSERT_TRUE(network.ok()) << network.status();
    network_ = *std::move(network);
    ParameterTable table = network_->graph().table();
    table.set_chunk_elements(1024);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    weights_.resize(layout_->arena_elements());
    network_->Initialize(kSeed, *layout_, weights_.data());
    std::mt19937 random(GetParam());
    for (int64_t i = 0; i < kMaxSamples * kLayerSize; ++i) {
      input_.push_back(static_cast<float>(random()) * 0x1p-31f - 1);
      target_.push_back(static_cast<int32_t>(random() % kClasses));
    }
  }

  MicroBatchInput MicroBatch(int64_t samples) const {
    return {samples, input_.data(), target_.data()};
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice();
  std::unique_ptr<Network> network_;
  std::unique_ptr<ArenaLayout> layout_;
  std::vector<float> weights_;
  std::vector<float> input_;
  std::vector<int32_t> target_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_NN_RANDOM_GRAPH_H_
