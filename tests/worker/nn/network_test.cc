// The network, with its shared memory, against a plain executor that gives each
// tensor its own.
#include "worker/nn/network.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/nn/random_graph.h"
#include "worker/device/reals.h"
#include "worker/nn/network_pass.h"
#include "worker/nn/network_structure.h"
#include "worker/nn/weight_copies.h"

namespace tributary {
namespace {

using NetworkTest = RandomNetworkTest;

// Runs a graph with a buffer for each tensor, on the CPU device, whose memory
// is the host's.
class PlainExecutor {
 public:
  PlainExecutor(const Graph& graph, const ArenaLayout& layout, Device* device)
      : graph_(graph), layout_(layout), device_(device) {}

  double Run(bool training, const MicroBatchInput& micro_batch,
             const float* weights) {
    samples_ = micro_batch.samples;
    values_ = {Room(kLayerSize)};
    std::copy_n(static_cast<const float*>(micro_batch.input),
                samples_ * kLayerSize, values_[0]);
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Graph::Node& node = graph_.nodes()[i];
      values_.push_back(Room(node.spec.output));
      saved_.push_back(Room(node.layer->SavedElements(*device_, samples_) + 1));
      if (!training && node.spec.identity_in_evaluation) {
        std::copy_n(values_[node.inputs[0]], samples_ * kLayerSize,
                    values_.back());
      } else {
        node.layer->Forward(Call(i, training), Tensors(i, weights));
      }
    }
    gradients_.assign(values_.size(), nullptr);
    float* gradient = Room(kClasses);
    gradients_[graph_.loss_input()] = gradient;
    return ComputeLoss(device_, graph_.loss(), samples_,
                       AsReals(values_[graph_.loss_input()]),
                       micro_batch.target, AsReals(gradient))
        ->sum;
  }

  std::vector<float> Gradients(const float* weights) {
    std::vector<float> arena(layout_.arena_elements());
    for (int i = static_cast<int>(graph_.nodes().size()) - 1; i >= 0; --i) {
      const Graph::Node& node = graph_.nodes()[i];
      LayerTensors tensors = Tensors(i, weights);
      tensors.output_gradient = AsReals(gradients_[node.output]);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        tensors.input_gradients[k] = AsReals(Room(kLayerSize));
      }
      for (size_t k = 0; k < node.parameters.size(); ++k) {
        tensors.weight_gradients[k] =
            Room(layout_.parameters()[node.parameters[k]].size);
      }
      node.layer->Backward(Call(i, true), tensors);
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        float*& sum = gradients_[node.inputs[k]];
        if (sum == nullptr) sum = Room(kLayerSize);
        device_->ops().elementwise->Add(
            {samples_ * kLayerSize, tensors.input_gradients[k], AsReals(sum)});
      }
      for (size_t k = 0; k < node.parameters.size(); ++k) {
        const Parameter& parameter = layout_.parameters()[node.parameters[k]];
        device_->ops().elementwise->Add(
            {parameter.size, AsReals(tensors.weight_gradients[k]),
             AsReals(arena.data() + parameter.offset)});
      }
    }
    return arena;
  }

 private:
  float* Room(int64_t elements) {
    memories_.push_back(*device_->Allocate(elements * kMaxSamples * 4));
    return static_cast<float*>(memories_.back().get());
  }
  LayerCall Call(int node, bool training) const {
    LayerCall call;
    call.device = device_;
    call.samples = samples_;
    call.training = training;
    call.stream = RandomStream{kSeed, RandomPurpose::kDropout, 3,
                               static_cast<uint32_t>(2 * 4096 + node)};
    return call;
  }
  LayerTensors Tensors(int number, const float* weights) const {
    const Graph::Node& node = graph_.nodes()[number];
    LayerTensors tensors;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      tensors.inputs[k] = AsReals(values_[node.inputs[k]]);
    }
    for (size_t k = 0; k < node.parameters.size(); ++k) {
      tensors.weights[k] =
          weights + layout_.parameters()[node.parameters[k]].offset;
    }
    if (node.spec.product_weight) {
      tensors.product_weight = AsReals(tensors.weights[0]);
    }
    tensors.output = AsReals(values_[node.output]);
    tensors.saved = saved_[number];
    return tensors;
  }

  const Graph& graph_;
  const ArenaLayout& layout_;
  Device* const device_;
  int64_t samples_ = 0;
  std::vector<Device::Memory> memories_;
  std::vector<float*> values_, saved_, gradients_;
};

TEST_P(NetworkTest, RandomGraphsTrainAsWithoutSharedMemory) {
  for (const int64_t samples : {kMaxSamples, int64_t{1}, int64_t{3}}) {
    PlainExecutor plain(network_->graph(), *layout_, device_.get());
    const double loss = plain.Run(true, MicroBatch(samples), weights_.data());
    const std::vector<float> wanted = plain.Gradients(weights_.data());
    std::vector<float> gradients(wanted.size(), NAN);
    GradientSink sink(gradients.data());
    const auto sums = network_->ForwardBackward(
        MicroBatch(samples), kSeed, /*step=*/3, /*micro_batch_number=*/2,
        weights_.data(), &sink, /*observer=*/nullptr);
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(sums->sample_count, samples);
    EXPECT_EQ(sums->loss, loss);  // Forward has no sums to reorder.
    for (size_t i = 0; i < wanted.size(); ++i) {
      // Gradients that meet are added in another order.
      EXPECT_NEAR(gradients[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i])))
          << i;
    }
  }
}

TEST_P(NetworkTest, RandomGraphsEvaluateAsWithoutSharedMemory) {
  PlainExecutor plain(network_->graph(), *layout_, device_.get());
  EXPECT_EQ(network_->Evaluate(MicroBatch(kMaxSamples), weights_.data())->loss,
            plain.Run(false, MicroBatch(kMaxSamples), weights_.data()));
}

TEST_P(NetworkTest, TwoPassesInPiecesHaveTheBitsOfWholePasses) {
  constexpr int kPasses = 2;
  const NetworkStructure structure = *NetworkStructure::Create(
      RandomGraph(GetParam()).Build(), kMaxSamples, *device_);
  const int layers = structure.layers();
  WeightCopies copies;
  ASSERT_TRUE(
      copies.Prepare(structure.graph, structure.layout, device_.get()).ok());
  const WeightsView weights(weights_.data());
  std::vector<std::unique_ptr<NetworkPass>> passes;
  std::vector<std::vector<float>> gradients;
  std::vector<std::unique_ptr<Reported>> sinks;
  gradients.resize(kPasses, std::vector<float>(weights_.size(), NAN));
  for (int i = 0; i < kPasses; ++i) {
    passes.push_back(*NetworkPass::Create(&structure, device_.get(),
                                          /*inputs=*/nullptr, &copies,
                                          /*shared=*/nullptr));
    sinks.push_back(std::make_unique<Reported>(&gradients[i]));
    NetworkPass::MicroBatch micro_batch;
    micro_batch.seed = kSeed;
    micro_batch.number = i;
    micro_batch.weights = &weights;
    micro_batch.gradients = sinks[i].get();
    passes[i]->Begin(MicroBatch(kMaxSamples - i), micro_batch);
  }
  const int cut = GetParam() % (layers + 1);
  for (const auto& [begin, end] : {std::pair(0, cut), std::pair(cut, layers)}) {
    for (const auto& pass : passes) {
      pass->SelectRandomNumbers();
      EXPECT_TRUE(pass->Forward(begin, end));
    }
  }
  std::vector<double> losses;
  for (const auto& pass : passes) {
    pass->BeginLoss();
    losses.push_back(pass->AwaitLoss()->loss);
  }
  for (const auto& [begin, end] : {std::pair(cut, layers), std::pair(0, cut)}) {
    for (const auto& pass : passes) {
      pass->SelectRandomNumbers();
      pass->Backward(begin, end);
    }
  }
  device_->SetRandomBase({});
  for (int i = 0; i < kPasses; ++i) {
    std::vector<float> wanted(weights_.size(), NAN);
    Reported whole(&wanted);
    const auto sums = network_->ForwardBackward(
        MicroBatch(kMaxSamples - i), kSeed, /*step=*/0,
        /*micro_batch_number=*/i, weights, &whole, /*observer=*/nullptr);
    ASSERT_TRUE(sums.ok()) << sums.status();
    EXPECT_EQ(losses[i], sums->loss);
    EXPECT_EQ(gradients[i], wanted);
    EXPECT_EQ(sinks[i]->ready, whole.ready);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, NetworkTest, testing::Range(0, 150));

}  // namespace
}  // namespace tributary
