// Parts of a network, and activations that are computed again, against the
// whole network.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/nn/random_graph.h"
#include "worker/nn/network.h"
#include "worker/nn/network_cuts.h"
#include "worker/nn/network_pass.h"
#include "worker/nn/network_structure.h"

namespace tributary {
namespace {

using NetworkPartsTest = RandomNetworkTest;

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

TEST_P(NetworkPartsTest, PartsHaveTheBitsOfTheWhole) {
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
TEST_P(NetworkPartsTest, RecomputedActivationsHaveTheSameBits) {
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

INSTANTIATE_TEST_SUITE_P(Seeds, NetworkPartsTest, testing::Range(0, 150));

}  // namespace
}  // namespace tributary
