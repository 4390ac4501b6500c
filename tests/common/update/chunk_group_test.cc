#include "common/update/chunk_group.h"

#include "gtest/gtest.h"
#include "tests/common/update/chunk_fixture.h"

namespace tributary {
namespace {

class ChunkGroupTest : public ChunkFixture {
 protected:
  ChunkGroupTest() {
    for (const int number : {0, 1}) {
      group_.Add(MakeChunk(number, /*place=*/number, policy_));
      At(number)->Initialize(/*version=*/0, Filled(4), /*slots=*/{});
    }
  }

  ChunkUpdater* At(int number) { return group_.Find(number); }
  // Takes the chunk to its next version.
  void TakeStep(ChunkUpdater* chunk) {
    ContributeStep(chunk, chunk->version());
    RunPass(chunk);
    chunk->Publish(/*more=*/false);
  }

  const OrderedPolicy policy_ = Policy();
  ChunkGroup group_{/*steps=*/10};
};

TEST_F(ChunkGroupTest, AsksForTheWorkOfItsOldestChunk) {
  EXPECT_EQ(group_.CompleteVersion(), 0);
  TakeStep(At(0));
  EXPECT_FALSE(Contribute(At(1), 0, 2));
  EXPECT_EQ(group_.CompleteVersion(), 0);
  EXPECT_EQ(group_.FindMissingWork()->step(), 0);
  EXPECT_EQ(group_.FindMissingWork()->leaf(), 1);
  EXPECT_TRUE(Contribute(At(1), 0, 3));
  EXPECT_FALSE(group_.FindMissingWork().has_value());
}

TEST_F(ChunkGroupTest, GroupsMayBeAtDifferentSteps) {
  ChunkGroup other(/*steps=*/10);
  other.Add(MakeChunk(/*number=*/1, /*place=*/0, policy_));
  ChunkUpdater* const alone = other.Find(1);
  EXPECT_EQ(other.CompleteVersion(), -1);
  alone->Initialize(/*version=*/0, Filled(4), /*slots=*/{});
  TakeStep(At(0));
  TakeStep(alone);
  TakeStep(alone);
  TakeStep(At(1));
  EXPECT_EQ(other.CompleteVersion(), 2);
  EXPECT_EQ(group_.CompleteVersion(), 1);
}

TEST_F(ChunkGroupTest, IsAtTheLastVersionWithoutChunks) {
  const ChunkGroup empty(/*steps=*/10);
  EXPECT_EQ(empty.CompleteVersion(), 10);
  EXPECT_EQ(empty.Find(0), nullptr);
}

}  // namespace
}  // namespace tributary
