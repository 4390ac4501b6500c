#include "worker/exchange/norm_gate.h"

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kChunks = 4;
constexpr int64_t kChunkElements = 16;
constexpr int64_t kSampleCount = 5;

ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(kChunkElements);
  auto* parameter = table.add_parameter();
  parameter->set_name("w");
  parameter->add_shape(kChunks * kChunkElements);
  parameter->set_group(DECAY);
  return *ArenaLayout::Create(table);
}

NodeChunk Chunk(BufferPool* pool, int chunk) {
  NodeChunk sum;
  sum.node = 1;
  sum.chunk = chunk;
  sum.sample_count = kSampleCount;
  sum.base_version = chunk + 10;
  sum.arena = pool->Take();
  for (int64_t i = 0; i < kChunks * kChunkElements; ++i) {
    sum.arena.get()[i] = static_cast<float>(i);
  }
  return sum;
}

TEST(NormGateTest, SendsEverythingWithTheNormOfTheMeanOnceAllIsThere) {
  const ArenaLayout layout = Layout();
  BufferPool pool(kChunks * kChunkElements);
  std::vector<NodeChunk> sent;
  NormGate gate(&layout, ExchangeSpec::FLOAT32,
                [&](NodeChunk sum) { sent.push_back(std::move(sum)); });
  for (const int chunk : {3, 1, 0}) {
    gate.Add(Chunk(&pool, chunk));
    EXPECT_TRUE(sent.empty());
  }
  gate.Add(Chunk(&pool, 2));
  double squares = 0;
  for (int i = 0; i < kChunks * kChunkElements; ++i) squares += double(i) * i;
  ASSERT_EQ(sent.size(), 4u);
  for (int i = 0; i < kChunks; ++i) {
    EXPECT_EQ(sent[i].chunk, kChunks - 1 - i);
    EXPECT_EQ(sent[i].base_version, sent[i].chunk + 10);
    EXPECT_DOUBLE_EQ(sent[i].gradient_norm, std::sqrt(squares) / kSampleCount);
  }
}

// A leaf that is a whole batch comes unrounded, and servers round it.
TEST(NormGateTest, TakesTheNormOfWhatIsRounded) {
  const ArenaLayout layout = Layout();
  BufferPool pool(kChunks * kChunkElements);
  double norm = 0;
  NormGate gate(&layout, ExchangeSpec::BFLOAT16,
                [&](NodeChunk sum) { norm = sum.gradient_norm; });
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    NodeChunk sum = Chunk(&pool, chunk);
    // Half of bfloat16's last place, and rounded to 1.
    std::fill_n(sum.arena.get(), kChunks * kChunkElements, 1 + 0x1p-8f);
    gate.Add(std::move(sum));
  }
  EXPECT_DOUBLE_EQ(norm, std::sqrt(kChunks * kChunkElements) / kSampleCount);
}

TEST(NormGateTest, TakesChunksFromSeveralThreads) {
  const ArenaLayout layout = Layout();
  for (int round = 0; round < 200; ++round) {
    BufferPool pool(kChunks * kChunkElements);
    std::vector<int> sent;  // All on one thread.
    NormGate gate(&layout, ExchangeSpec::FLOAT32,
                  [&](NodeChunk sum) { sent.push_back(sum.chunk); });
    std::vector<std::thread> threads;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      threads.emplace_back([&, chunk] { gate.Add(Chunk(&pool, chunk)); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(sent, (std::vector<int>{3, 2, 1, 0}));
  }
}

}  // namespace
}  // namespace tributary
