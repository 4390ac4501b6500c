#include "worker/exchange/subtree_reducer.h"

#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "common/numerics/half.h"
#include "common/parameters/reduction_tree.h"
#include "gtest/gtest.h"

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

// Feeds the leaves from `threads` threads, each leaf's chunks from the last to
// the first.
void Feed(SubtreeReducer* reducer, BufferPool* pool,
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
          reducer->ChunkReady(leaf, chunk, arena, /*sample_count=*/3,
                              /*loss_sum=*/chunk == 0 ? leaf : 0);
        }
      }
    });
  }
  for (std::thread& thread : running) thread.join();
}

class SubtreeReducerTest : public ::testing::TestWithParam<WireDtype> {};

TEST_P(SubtreeReducerTest, SendsEachMaximalSubtreeOnceWithTheTreesBits) {
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
      SubtreeReducer reducer(
          &layout, kLeaves, GetParam(), leaves, [&](NodeChunk sum) {
            absl::MutexLock lock(&mu);
            const std::pair<int, int> key = {sum.node, sum.chunk};
            EXPECT_TRUE(sent.emplace(key, std::move(sum)).second);
          });
      Feed(&reducer, &pool, leaves, threads);
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

INSTANTIATE_TEST_SUITE_P(WireDtypes, SubtreeReducerTest,
                         ::testing::Values(ExchangeSpec::FLOAT32,
                                           ExchangeSpec::BFLOAT16,
                                           ExchangeSpec::FLOAT16),
                         [](const auto& info) {
                           return ExchangeSpec::WireDtype_Name(info.param);
                         });

}  // namespace
}  // namespace tributary
