// The network, with its shared memory, against a plain executor that gives each
// tensor its own.
#include "worker/nn/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/device/reals.h"
#include "worker/nn/gradient_sink.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/residual.h"
#include "worker/nn/network_cuts.h"
#include "worker/nn/network_pass.h"
#include "worker/nn/network_structure.h"
#include "worker/nn/weight_copies.h"

namespace tributary {
namespace {

constexpr int64_t kLayerSize = 6;  // Of every value.
constexpr int64_t kClasses = 4;
constexpr int64_t kMaxSamples = 5;
constexpr uint64_t kSeed = 9;

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

class NetworkTest : public testing::TestWithParam<int> {
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

// Records where the gradients of a micro-batch become final.
class Reported final : public GradientSink {
 public:
  explicit Reported(std::vector<float>* gradients)
      : GradientSink(gradients->data()) {}
  void Ready(int64_t begin) override { ready.push_back(begin); }
  std::vector<int64_t> ready;
};

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

// A network that is cut into parts, each with memory and gradients of its own,
// and computes two micro-batches whose passes alternate.
class PartsOfNetwork {
 public:
  static constexpr int kMicroBatches = 2;

  PartsOfNetwork(uint32_t seed, const NetworkPart& how, Device* device)
      : random_(seed), device_(device) {
    const Graph graph = RandomGraph(seed).Build();
    const std::vector<bool> allowed = AllowedCuts(graph);
    NetworkPart part = how;
    part.in_flight = kMicroBatches;
    for (size_t cut = 1; cut <= allowed.size(); ++cut) {
      const bool last = cut == allowed.size();
      if (!last && (!allowed[cut] || random_() % 3 != 0)) continue;
      part.end = static_cast<int>(cut);
      auto network =
          Network::Create(RandomGraph(seed).Build(), kMaxSamples, device,
                          /*copies=*/nullptr, part);
      EXPECT_TRUE(network.ok()) << network.status();
      parts_.push_back(*std::move(network));
      part.begin = part.end;
    }
  }

  int count() const { return static_cast<int>(parts_.size()); }
  const Network& part(int number) const { return *parts_[number]; }

  // Computes the micro-batches, of which number i has kMaxSamples - i samples.
  // Returns their losses.
  std::vector<double> Compute(MicroBatchInput input,
                              const std::vector<float>& weights) {
    const WeightsView view(weights.data());
    gradients_.assign(kMicroBatches,
                      std::vector<std::vector<float>>(
                          count(), std::vector<float>(weights.size(), NAN)));
    std::vector<std::vector<Reported>> sinks(kMicroBatches);
    for (int m = 0; m < kMicroBatches; ++m) {
      for (auto& arena : gradients_[m]) sinks[m].emplace_back(&arena);
    }
    std::vector<double> losses;
    for (int m = 0; m < kMicroBatches; ++m) {
      MicroBatchInput micro_batch = input;
      micro_batch.samples -= m;
      for (int i = 0; i < count(); ++i) {
        NetworkPass& pass = *parts_[i]->pass(m);
        pass.Begin(micro_batch, {kSeed, /*step=*/0, m, &view, &sinks[m][i],
                                 /*observer=*/nullptr, micro_batch.samples});
        if (i > 0) Pass(m, i - 1, i, &NetworkPlan::Crossing::place);
        const NetworkPlan& plan = parts_[i]->structure().plan;
        EXPECT_TRUE(pass.Forward(plan.begin, plan.end));
      }
      parts_.back()->pass(m)->BeginLoss();
      losses.push_back(parts_.back()->pass(m)->AwaitLoss()->loss);
    }
    const bool separate = parts_[0]->structure().part.separate_weights;
    for (int m = 0; m < kMicroBatches; ++m) {
      for (int i = count() - 1; i >= 0; --i) {
        if (i + 1 < count()) {
          Pass(m, i + 1, i, &NetworkPlan::Crossing::gradient);
        }
        NetworkPass& pass = *parts_[i]->pass(m);
        const NetworkPlan& plan = parts_[i]->structure().plan;
        pass.SelectRandomNumbers();
        pass.Backward(plan.begin, plan.end);
        if (!separate) HandOnBorrowed(m, i);
      }
    }
    for (int m = 0; separate && m < kMicroBatches; ++m) {
      for (int i = count() - 1; i >= 0; --i) {
        parts_[i]->pass(m)->Weights();
        HandOnBorrowed(m, i);
      }
    }
    device_->SetRandomBase({});
    return losses;
  }

  // Returns the gradients of a micro-batch, joined from the parts.
  std::vector<float> Gradients(int micro_batch) const {
    std::vector<float> joined;
    for (int i = 0; i < count(); ++i) {
      const NetworkStructure::Range& range = parts_[i]->structure().elements;
      EXPECT_EQ(range.begin, static_cast<int64_t>(joined.size()));
      const std::vector<float>& arena = gradients_[micro_batch][i];
      joined.insert(joined.end(), arena.begin() + range.begin,
                    arena.begin() + range.end);
    }
    return joined;
  }

 private:
  // Copies values, or their gradients, between neighbouring parts.
  void Pass(int slot, int from, int to, int64_t NetworkPlan::Crossing::*place) {
    const NetworkPlan& source = parts_[from]->structure().plan;
    const NetworkPlan& target = parts_[to]->structure().plan;
    const auto& read = from < to ? source.sent : source.received;
    const auto& written = from < to ? target.received : target.sent;
    ASSERT_EQ(read.size(), written.size());
    for (size_t i = 0; i < read.size(); ++i) {
      EXPECT_EQ(read[i].value, written[i].value);
      EXPECT_EQ(read[i].bytes, written[i].bytes);
      EXPECT_EQ(read[i].gradient < 0, written[i].gradient < 0);
      if (read[i].*place < 0) continue;
      std::memcpy(parts_[to]->pass(slot)->At(written[i].*place),
                  parts_[from]->pass(slot)->At(read[i].*place), read[i].bytes);
    }
  }

  // Copies the gradients of borrowed parameters to the next earlier part that
  // uses them.
  void HandOnBorrowed(int m, int from) {
    for (const auto& range : parts_[from]->structure().borrowed) {
      for (int to = from - 1; to >= 0; --to) {
        const NetworkStructure& structure = parts_[to]->structure();
        const bool uses =
            range.begin >= structure.elements.begin ||
            std::any_of(structure.borrowed.begin(), structure.borrowed.end(),
                        [&](const NetworkStructure::Range& other) {
                          return other.begin == range.begin;
                        });
        if (!uses) continue;
        std::copy(gradients_[m][from].begin() + range.begin,
                  gradients_[m][from].begin() + range.end,
                  gradients_[m][to].begin() + range.begin);
        break;
      }
    }
  }

  std::mt19937 random_;
  Device* const device_;
  std::vector<std::unique_ptr<Network>> parts_;
  std::vector<std::vector<std::vector<float>>> gradients_;
};

TEST_P(NetworkTest, PartsHaveTheBitsOfTheWhole) {
  for (int how = 0; how < 4; ++how) {
    NetworkPart part;
    part.recompute = how % 2 == 1;
    part.separate_weights = how / 2 == 1;
    PartsOfNetwork parts(GetParam(), part, device_.get());
    const std::vector<double> losses =
        parts.Compute(MicroBatch(kMaxSamples), weights_);
    for (int m = 0; m < PartsOfNetwork::kMicroBatches; ++m) {
      std::vector<float> wanted(weights_.size(), NAN);
      GradientSink sink(wanted.data());
      const auto sums = network_->ForwardBackward(
          MicroBatch(kMaxSamples - m), kSeed, /*step=*/0,
          /*micro_batch_number=*/m, weights_.data(), &sink,
          /*observer=*/nullptr);
      ASSERT_TRUE(sums.ok()) << sums.status();
      EXPECT_EQ(losses[m], sums->loss);
      EXPECT_EQ(parts.Gradients(m), wanted)
          << parts.count() << " parts, variant " << how;
    }
  }
}

// The same for the whole network, in one call.
TEST_P(NetworkTest, RecomputedActivationsHaveTheSameBits) {
  NetworkPart part;
  part.recompute = true;
  auto network = Network::Create(RandomGraph(GetParam()).Build(), kMaxSamples,
                                 device_.get(), /*copies=*/nullptr, part);
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_LE((*network)->memory_bytes(), network_->memory_bytes());
  std::vector<float> gradients[2];
  double losses[2];
  for (int i = 0; i < 2; ++i) {
    gradients[i].resize(weights_.size(), NAN);
    GradientSink sink(gradients[i].data());
    const auto sums =
        (i == 0 ? *network_ : **network)
            .ForwardBackward(MicroBatch(kMaxSamples), kSeed,
                             /*step=*/3,
                             /*micro_batch_number=*/2, weights_.data(), &sink,
                             /*observer=*/nullptr);
    ASSERT_TRUE(sums.ok()) << sums.status();
    losses[i] = sums->loss;
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(
      (*network)->Evaluate(MicroBatch(kMaxSamples), weights_.data())->loss,
      network_->Evaluate(MicroBatch(kMaxSamples), weights_.data())->loss);
}

INSTANTIATE_TEST_SUITE_P(Seeds, NetworkTest, testing::Range(0, 150));

}  // namespace
}  // namespace tributary
