#include "worker/exchange/step_gradients.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/numerics/half.h"
#include "common/parameters/reduction_tree.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/function_sender.h"

namespace tributary {
namespace {

constexpr int kLeaves = 8;
constexpr int kChunks = 3;
constexpr int64_t kChunkElements = 16;

float LeafValue(int leaf, int64_t element) {
  const float scale[] = {1e3f, 1.f, -1e3f, 0.1f, 3e2f, -7.f, 1e-3f, 5e1f};
  return scale[leaf] * (1.f + 0.0123f * static_cast<float>(element));
}

float Rounded(WireDtype dtype, float value) {
  RoundTo(dtype, &value, 1);
  return value;
}

float TreeSum(WireDtype dtype, int node, int64_t element) {
  if (node >= kLeaves)
    return Rounded(dtype, LeafValue(node - kLeaves, element));
  return Rounded(dtype, TreeSum(dtype, 2 * node, element) +
                            TreeSum(dtype, 2 * node + 1, element));
}

ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(kChunkElements);
  auto* parameter = table.add_parameter();
  parameter->set_name("w");
  parameter->add_shape(kChunks * kChunkElements);
  parameter->set_group(DECAY);
  return *ArenaLayout::Create(table);
}

StepGradients::Plan PlanOf(const ArenaLayout& layout, WireDtype dtype) {
  StepGradients::Plan plan;
  plan.layout = &layout;
  plan.tree_leaves = kLeaves;
  plan.dtype = dtype;
  return plan;
}

// Feeds the leaves from `threads` threads, each leaf's chunks from the last to
// the first.
void Feed(StepGradients* gradients, BufferPool* pool,
          const std::vector<int64_t>& leaves, int threads) {
  std::vector<std::thread> running;
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([=] {
      for (size_t i = t; i < leaves.size(); i += threads) {
        const int leaf = static_cast<int>(leaves[i]);
        const Buffer arena = pool->Take();
        for (int64_t e = 0; e < kChunks * kChunkElements; ++e) {
          arena.get()[e] = LeafValue(leaf, e);
        }
        for (int chunk = kChunks - 1; chunk >= 0; --chunk) {
          gradients->Ready({gradients->NodeOf(leaf), chunk, arena,
                            /*sample_count=*/3,
                            /*loss_sum=*/chunk == 0 ? double(leaf) : 0});
        }
      }
    });
  }
  for (std::thread& thread : running) thread.join();
}

class StepGradientsDtypeTest : public ::testing::TestWithParam<WireDtype> {};

TEST_P(StepGradientsDtypeTest, SendsEachMaximalSubtreeOnceWithTheTreesBits) {
  const ArenaLayout layout = Layout();
  BufferPool pool(layout.arena_elements());
  const std::vector<std::vector<int64_t>> cases = {
      {0, 1, 2, 3, 4, 5, 6, 7}, {0}, {7}, {1, 2, 3}, {2, 3, 4, 5, 6},
      {0, 1, 2, 5, 6, 7},  // Two runs: micro-batches assigned anew on both
                           // sides.
  };
  for (const auto& leaves : cases) {
    for (const int threads : {1, 2, 3}) {
      absl::Mutex mu;
      std::map<std::pair<int, int>, NodeChunk> sent;
      StepGradients gradients(
          PlanOf(layout, GetParam()), /*step=*/0, leaves,
          SendTo([&](NodeChunk sum) {
            absl::MutexLock lock(&mu);
            const std::pair<int, int> key = {sum.node, sum.chunk};
            EXPECT_TRUE(sent.emplace(key, std::move(sum)).second);
          }));
      Feed(&gradients, &pool, leaves, threads);
      int covered = 0;
      for (const auto& [key, sum] : sent) {
        const LeafRange under = LeavesUnder(sum.node, kLeaves);
        if (sum.chunk == 0) {
          covered += under.end - under.begin;
          double loss = 0;
          for (int leaf = under.begin; leaf < under.end; ++leaf) loss += leaf;
          EXPECT_EQ(sum.loss_sum, loss);
        }
        EXPECT_EQ(sum.sample_count, 3 * (under.end - under.begin));
        const int64_t begin = layout.ChunkBegin(sum.chunk);
        for (int64_t e = begin; e < begin + kChunkElements; ++e) {
          // A bare leaf is rounded by whoever reads it.
          const float value = sum.node < kLeaves
                                  ? sum.arena.get()[e]
                                  : Rounded(GetParam(), sum.arena.get()[e]);
          ASSERT_EQ(value, TreeSum(GetParam(), sum.node, e));
        }
      }
      EXPECT_EQ(covered, leaves.size());
      EXPECT_EQ(sent.size() % kChunks, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(WireDtypes, StepGradientsDtypeTest,
                         ::testing::Values(ExchangeSpec::FLOAT32,
                                           ExchangeSpec::BFLOAT16,
                                           ExchangeSpec::FLOAT16),
                         [](const auto& info) {
                           return ExchangeSpec::WireDtype_Name(info.param);
                         });

TEST(StepGradientsTest, SendsEveryNodeAsItIsIfOnlyTheReceiverAdds) {
  const ArenaLayout layout = Layout();
  BufferPool pool(layout.arena_elements());
  std::vector<int> nodes;
  StepGradients::Plan plan = PlanOf(layout, ExchangeSpec::FLOAT32);
  plan.adds = false;
  StepGradients gradients(
      plan, /*step=*/0, {0, 1, 2, 3},
      SendTo([&](const NodeChunk& sum) { nodes.push_back(sum.node); }));
  // Two leaves, and the sum of two others.
  for (const int node : {8, 9, 5}) gradients.Ready({node, 0, pool.Take(), 1});
  EXPECT_EQ(nodes, (std::vector<int>{8, 9, 5}));
}

constexpr int64_t kSampleCount = 5;

// A batch of one micro-batch, whose sums await the norm.
class NormTest : public testing::Test {
 protected:
  NormTest() { plan_.awaits_norm = true; }

  NodeChunk Chunk(int chunk) {
    NodeChunk sum;
    sum.node = 1;
    sum.chunk = chunk;
    sum.sample_count = kSampleCount;
    sum.arena = pool_.Take();
    for (int64_t i = 0; i < kChunks * kChunkElements; ++i) {
      sum.arena.get()[i] = static_cast<float>(i);
    }
    return sum;
  }
  StepGradients Batch(std::function<void(NodeChunk)> send) {
    return StepGradients(plan_, /*step=*/0, {0, 1, 2, 3, 4, 5, 6, 7},
                         SendTo(std::move(send)));
  }

  const ArenaLayout layout_ = Layout();
  BufferPool pool_{kChunks * kChunkElements};
  StepGradients::Plan plan_ = PlanOf(layout_, ExchangeSpec::FLOAT32);
};

TEST_F(NormTest, SendsEverythingWithTheNormOfTheMeanOnceAllIsThere) {
  std::vector<NodeChunk> sent;
  StepGradients batch =
      Batch([&](NodeChunk sum) { sent.push_back(std::move(sum)); });
  for (const int chunk : {2, 0}) {
    batch.Ready(Chunk(chunk));
    EXPECT_TRUE(sent.empty());
  }
  batch.Ready(Chunk(1));
  double squares = 0;
  for (int i = 0; i < kChunks * kChunkElements; ++i) squares += double(i) * i;
  ASSERT_EQ(sent.size(), 3u);
  for (int i = 0; i < kChunks; ++i) {
    EXPECT_EQ(sent[i].chunk, kChunks - 1 - i);
    EXPECT_DOUBLE_EQ(sent[i].gradient_norm, std::sqrt(squares) / kSampleCount);
  }
}

// A leaf that is a whole batch comes unrounded, and servers round it.
TEST_F(NormTest, TakesTheNormOfWhatIsRounded) {
  plan_.dtype = ExchangeSpec::BFLOAT16;
  double norm = 0;
  StepGradients batch = Batch([&](NodeChunk sum) { norm = sum.gradient_norm; });
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    NodeChunk sum = Chunk(chunk);
    // Half of bfloat16's last place, and rounded to 1.
    std::fill_n(sum.arena.get(), kChunks * kChunkElements, 1 + 0x1p-8f);
    batch.Ready(std::move(sum));
  }
  EXPECT_DOUBLE_EQ(norm, std::sqrt(kChunks * kChunkElements) / kSampleCount);
}

TEST_F(NormTest, TakesChunksFromSeveralThreads) {
  for (int round = 0; round < 200; ++round) {
    std::vector<int> sent;  // All on one thread.
    StepGradients batch =
        Batch([&](const NodeChunk& sum) { sent.push_back(sum.chunk); });
    std::vector<std::thread> threads;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      threads.emplace_back([&, chunk] { batch.Ready(Chunk(chunk)); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sent, (std::vector<int>{2, 1, 0}));
  }
}

}  // namespace
}  // namespace tributary
