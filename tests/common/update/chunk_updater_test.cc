#include "common/update/chunk_updater.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/update/chunk_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = ChunkUpdater::State;

constexpr int kNumber = 1;

class ChunkUpdaterTest : public ChunkFixture {
 protected:
  // Creates a chunk of weights 4.
  void Make(int64_t staleness = 0) {
    chunk_ = MakeChunk(kNumber, /*place=*/0, Policy(staleness));
    chunk_->Subscribe(&recorder_, MemoryPlace::kHost);
    chunk_->Initialize(/*version=*/0, Filled(4), /*slots=*/{});
  }
  bool Contribute(int64_t step, int node) {
    return ChunkFixture::Contribute(chunk_.get(), step, node);
  }
  void ContributeStep(int64_t step) {
    ChunkFixture::ContributeStep(chunk_.get(), step);
  }
  Snapshot::Chunk RunPass() { return ChunkFixture::RunPass(chunk_.get()); }

  std::vector<int64_t> published() { return recorder_.versions()[kNumber]; }

  Recorder recorder_;
  std::unique_ptr<ChunkUpdater> chunk_;
};

TEST_F(ChunkUpdaterTest, CollectsUntilTheStepIsComplete) {
  Make();
  EXPECT_FALSE(Contribute(0, 2));
  EXPECT_EQ(chunk_->state(), State::kCollecting);
  EXPECT_FALSE(Contribute(0, 2));  // A duplicate.
  EXPECT_EQ(chunk_->FirstMissing(0), 1);
  EXPECT_TRUE(Contribute(0, 3));
  EXPECT_EQ(chunk_->state(), State::kUpdating);
  EXPECT_EQ(chunk_->update().step, 0);
  EXPECT_EQ(chunk_->FirstMissing(0), std::nullopt);
  EXPECT_FALSE(Contribute(0, 3));
}

TEST_F(ChunkUpdaterTest, PublishesWhatThePassHasComputed) {
  Make();
  ContributeStep(0);
  RunPass();
  EXPECT_EQ(chunk_->state(), State::kReplicating);
  EXPECT_EQ(chunk_->version(), 0);
  EXPECT_THAT(published(), ElementsAre(0));
  EXPECT_FALSE(chunk_->Publish(/*more=*/false));
  EXPECT_EQ(chunk_->state(), State::kCollecting);
  EXPECT_EQ(chunk_->version(), 1);
  EXPECT_THAT(published(), ElementsAre(0, 1));
  EXPECT_EQ(recorder_.At(kNumber, 0), 3);
}

TEST_F(ChunkUpdaterTest, UpdatesOnceTheNormOfItsSumIsKnown) {
  settings_.awaits_norm = true;
  Make();
  ContributeStep(0);
  EXPECT_EQ(chunk_->state(), State::kSumming);
  EXPECT_FALSE(chunk_->NormKnown(0)) << "of a sum that is not complete";
  chunk_->SumDone(absl::Time(), absl::Time());
  EXPECT_EQ(chunk_->state(), State::kAwaitingNorm);
  EXPECT_FALSE(chunk_->NormKnown(1)) << "of a different step";
  EXPECT_EQ(chunk_->state(), State::kAwaitingNorm);
  EXPECT_TRUE(chunk_->NormKnown(0));
  EXPECT_EQ(chunk_->state(), State::kUpdating);
  EXPECT_FALSE(chunk_->NormKnown(0)) << "twice";
}

TEST_F(ChunkUpdaterTest, CopiesAVersionForTheReplicaBeforeItIsPublished) {
  settings_.replicates = true;
  Make();
  ContributeStep(0);
  const Snapshot::Chunk copy = RunPass();
  EXPECT_EQ(copy.number, kNumber);
  EXPECT_EQ(copy.values.get()[0], 3);
  EXPECT_THAT(published(), ElementsAre(0));
  chunk_->Publish(/*more=*/false);
  EXPECT_THAT(published(), ElementsAre(0, 1));
}

TEST_F(ChunkUpdaterTest, BeginsAStepWhoseContributionsCameEarly) {
  Make(/*staleness=*/1);
  ContributeStep(0);
  EXPECT_FALSE(Contribute(1, 2));
  EXPECT_FALSE(Contribute(1, 3));
  EXPECT_EQ(chunk_->update().step, 0);
  RunPass();
  EXPECT_TRUE(chunk_->Publish(/*more=*/false));
  EXPECT_EQ(chunk_->state(), State::kUpdating);
  EXPECT_EQ(chunk_->update().step, 1);
}

TEST_F(ChunkUpdaterTest, CapturesTheVersionThatASnapshotAsksFor) {
  Make();
  std::vector<int64_t> taken;
  const auto capture = [&](int64_t version) {
    auto made = std::make_shared<SnapshotCapture>(
        version, /*chunks=*/1,
        [&](Snapshot snapshot) { taken.push_back(snapshot.version); });
    const bool captures = chunk_->Capture(made);
    made->Release();
    return captures;
  };
  EXPECT_TRUE(capture(0));
  EXPECT_THAT(taken, ElementsAre(0)) << "the newest version, at once";
  taken.clear();
  EXPECT_TRUE(capture(1));
  EXPECT_THAT(taken, IsEmpty());
  ContributeStep(0);
  RunPass();
  EXPECT_THAT(taken, ElementsAre(1)) << "when the version is computed";
  EXPECT_FALSE(capture(0)) << "during the update from this version";
  EXPECT_FALSE(capture(1)) << "during the update to this version";
  EXPECT_TRUE(capture(2));
  chunk_->Publish(/*more=*/false);
  EXPECT_FALSE(capture(0)) << "an old version";
}

TEST_F(ChunkUpdaterTest, DropsWhatARevokedWorkerSent) {
  Make();
  EXPECT_TRUE(chunk_->Contribute(Sum(0, 2, /*contributor=*/8)).ok());
  revoked_.Add(8);
  chunk_->DropFrom(8);
  EXPECT_TRUE(absl::IsAborted(
      chunk_->Contribute(Sum(0, 2, /*contributor=*/8)).status()));
  EXPECT_EQ(chunk_->FirstMissing(0), 0);
  EXPECT_FALSE(Contribute(0, 3));
}

}  // namespace
}  // namespace tributary
