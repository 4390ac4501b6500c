// Snapshots for checkpoints, and stores that go on from them.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/parameters/snapshot.h"
#include "common/update/update_engine.h"
#include "gtest/gtest.h"
#include "tests/common/update/update_engine_fixture.h"

namespace tributary {
namespace {

// Weights and velocity of each chunk.
std::vector<float> Contents(const Snapshot& snapshot,
                            const ArenaLayout& layout) {
  std::vector<float> contents;
  for (const Snapshot::Chunk& chunk : snapshot.chunks) {
    const int64_t size = layout.ChunkSize(chunk.number);
    contents.insert(contents.end(), chunk.values.get(),
                    chunk.values.get() + size);
    EXPECT_EQ(chunk.slots.size(), 1u);
    for (const Buffer& slot : chunk.slots) {
      // Gaps of the state are nobody's.
      for (const ChunkSegment& segment : layout.ChunkSegments(chunk.number)) {
        contents.insert(contents.end(), slot.get() + segment.begin,
                        slot.get() + segment.end);
      }
    }
  }
  return contents;
}

TEST_F(UpdateEngineTest, SnapshotsAreOfOneVersionWhateverIsAskedAndShared) {
  std::vector<float> expected;
  for (const bool shared : {false, true}) {
    for (const bool ahead : {true, false}) {
      if (engine_ != nullptr) engine_->Unsubscribe(&recorder_);
      pool_.reset();
      Make(/*clip_norm=*/0, /*steps=*/4);
      if (shared) {
        ASSERT_TRUE(engine_->memory().ShareWeights().ok());
      }
      Snapshot taken;
      const auto take = [&](Snapshot snapshot) { taken = std::move(snapshot); };
      if (ahead) {
        EXPECT_TRUE(engine_->TakeSnapshot(2, take));
      }
      for (int64_t step = 0; step < 2; ++step) {
        ContributeAll(step, static_cast<float>(step + 3));
        recorder_.Await(step + 1, 3);
      }
      if (!ahead) {
        EXPECT_TRUE(engine_->TakeSnapshot(2, take));
      }
      EXPECT_FALSE(engine_->TakeSnapshot(1, take));
      // What comes after it does not touch it.
      for (int64_t step = 2; step < 4; ++step) {
        ContributeAll(step, 5);
        recorder_.Await(step + 1, 3);
      }
      ASSERT_EQ(taken.chunks.size(), 3u);
      EXPECT_EQ(taken.version, 2);
      const std::vector<float> contents = Contents(taken, engine_->layout());
      if (expected.empty()) expected = contents;
      EXPECT_EQ(contents, expected);
      // Mean gradients 1.5, 2: v = 2.75, w = 1 - 0.75 - 1.375.
      EXPECT_EQ(contents[0], -1.125f);
    }
  }
}

TEST_F(UpdateEngineTest, GoesOnFromASnapshotToTheSameBits) {
  Make(/*clip_norm=*/0, /*steps=*/4);
  Snapshot taken;
  EXPECT_TRUE(engine_->TakeSnapshot(
      2, [&](Snapshot snapshot) { taken = std::move(snapshot); }));
  for (int64_t step = 0; step < 4; ++step) {
    ContributeAll(step, static_cast<float>(step));
    recorder_.Await(step + 1, 3);
  }
  const float last = recorder_.At(2, 15);
  engine_->Unsubscribe(&recorder_);
  pool_.reset();
  Make(/*clip_norm=*/0, /*steps=*/4, "", /*first_version=*/2);
  engine_->Unsubscribe(&recorder_);
  engine_->Restore(std::move(taken));
  engine_->Subscribe(&recorder_, MemoryPlace::kHost);
  EXPECT_EQ(engine_->chunks().CompleteVersion(), 2);
  // What belongs to a step that is in it already is dropped.
  EXPECT_TRUE(Contribute(1, 0, 1, 99).ok());
  for (int64_t step = 2; step < 4; ++step) {
    ContributeAll(step, static_cast<float>(step));
    recorder_.Await(step + 1, 3);
  }
  EXPECT_EQ(recorder_.At(2, 15), last);
}

// recovery.journal: the loss of this server must not take back what anybody
// has seen.
TEST_F(UpdateEngineTest, GivesNothingOutThatIsNotKept) {
  Make(/*clip_norm=*/0, /*steps=*/3);
  absl::Mutex mu;
  Snapshot copies;
  std::vector<std::function<void()>> answers;
  engine_->SetReplicator(
      [&](int64_t version, Snapshot::Chunk copy, std::function<void()> kept) {
        absl::MutexLock lock(&mu);
        copies.version = version;
        copies.chunks.push_back(std::move(copy));
        answers.push_back(std::move(kept));
      });
  Snapshot taken;
  EXPECT_TRUE(engine_->TakeSnapshot(
      1, [&](Snapshot snapshot) { taken = std::move(snapshot); }));
  ContributeAll(0, 3);
  const auto all = [&] { return answers.size() == 3; };
  {
    absl::MutexLock lock(&mu, absl::Condition(&all));
    EXPECT_EQ(copies.version, 1);
  }
  EXPECT_EQ(engine_->chunks().CompleteVersion(), 0);
  for (const auto& [chunk, versions] : recorder_.versions()) {
    EXPECT_EQ(versions.back(), 0) << chunk;
  }
  for (const auto& kept : answers) kept();
  recorder_.Await(1, 3);
  EXPECT_EQ(engine_->chunks().CompleteVersion(), 1);
  std::sort(copies.chunks.begin(), copies.chunks.end(),
            [](const Snapshot::Chunk& a, const Snapshot::Chunk& b) {
              return a.number < b.number;
            });
  EXPECT_EQ(Contents(copies, engine_->layout()),
            Contents(taken, engine_->layout()));
}

}  // namespace
}  // namespace tributary
