// Chunks of an update engine, for tests that drive them without threads.
#ifndef TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_FIXTURE_H_
#define TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_FIXTURE_H_

#include <algorithm>
#include <memory>
#include <utility>

#include "common/optimizer/optimizer.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_updater.h"
#include "common/update/consistency/ordered_policy.h"
#include "gtest/gtest.h"
#include "tests/common/update/update_engine_fixture.h"

namespace tributary {

// Creates chunks of 16 elements, whose steps have two micro-batches.
class ChunkFixture : public ::testing::Test {
 protected:
  static constexpr int64_t kSize = 16;

  ChunkFixture()
      : recipe_(Job(), /*steps=*/10, /*statistics_rate=*/0),
        optimizer_(*Optimizer::Create(Job().optimizer())) {
    settings_.slots = optimizer_->slots();
    settings_.recipe = &recipe_;
    settings_.buffers = &buffers_;
    settings_.halves = &halves_;
    settings_.revoked = &revoked_;
    settings_.on_failure = [](int, const absl::Status& status) {
      ADD_FAILURE() << status;
    };
  }

  static JobSpec Job() {
    JobSpec job;
    job.mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
    return job;
  }

  static OrderedPolicy Policy(int64_t staleness = 0) {
    ConsistencyPolicy::Options options;
    options.leaves = 2;
    options.steps = 10;
    return OrderedPolicy(options, staleness);
  }

  // Creates chunk 0 or 1 without weights.
  std::unique_ptr<ChunkUpdater> MakeChunk(int number, int place,
                                          const OrderedPolicy& policy) {
    return std::make_unique<ChunkUpdater>(
        &settings_, number, place, kSize, policy.NewQueue(),
        std::make_unique<BlockPass>(LayoutOf(kSize, {kSize, kSize}), number,
                                    optimizer_.get()));
  }

  Buffer Filled(float value) {
    Buffer buffer = buffers_.Take();
    std::fill_n(buffer.get(), kSize, value);
    return buffer;
  }

  // Returns the gradient of node 2 or 3, one micro-batch, with elements of 1.
  NodeSum Sum(int64_t step, int node, int64_t contributor = 7) {
    NodeSum sum;
    sum.step = step;
    sum.node = node;
    const Buffer gradient = Filled(1);
    sum.gradient = std::make_shared<GradientInMemory>(
        MemoryView{gradient.get(), gradient});
    sum.sample_count = 1;
    sum.loss_sum = 3;
    sum.contributor = contributor;
    return sum;
  }
  // Adds the gradient of one micro-batch. Returns true if it completes the
  // step.
  bool Contribute(ChunkUpdater* chunk, int64_t step, int node) {
    const absl::StatusOr<bool> complete = chunk->Contribute(Sum(step, node));
    EXPECT_TRUE(complete.ok()) << complete.status();
    return complete.value_or(false);
  }
  void ContributeStep(ChunkUpdater* chunk, int64_t step) {
    EXPECT_FALSE(Contribute(chunk, step, 2));
    EXPECT_TRUE(Contribute(chunk, step, 3));
  }

  // Runs the pass, and ends the update.
  static Snapshot::Chunk RunPass(ChunkUpdater* chunk) {
    EXPECT_TRUE(chunk->pass()->Run(chunk->BeginUpdate(/*norm=*/0)).ok());
    return chunk->UpdateDone(absl::Time(), absl::Time());
  }

  const UpdateRecipe recipe_;
  const std::unique_ptr<Optimizer> optimizer_;
  BufferPool buffers_{kSize};
  BufferPool halves_{kSize / 2};
  RevokedWorkers revoked_;
  ChunkUpdater::Settings settings_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_UPDATE_CHUNK_FIXTURE_H_
