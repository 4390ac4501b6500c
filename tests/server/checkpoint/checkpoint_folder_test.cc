#include "server/checkpoint/checkpoint_folder.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"
#include "tests/support/faulty_file_system.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

CheckpointFacts FactsOf(int64_t step, int servers = 1) {
  CheckpointFacts facts;
  facts.table = MakeTable({{3}, {5, 7}}, 32);
  facts.state = {"momentum_buffer"};
  facts.servers = servers;
  facts.step = step;
  return facts;
}

class CheckpointFolderTest : public testing::Test {
 protected:
  // By the object under test, as every save of a run.
  absl::Status Save(int64_t step, int servers = 1) {
    const CheckpointFacts facts = FactsOf(step, servers);
    const auto temporary = folder_.Begin(step);
    EXPECT_TRUE(temporary.ok()) << temporary.status();
    EXPECT_EQ(WriteCheckpointFiles(facts, *temporary), absl::OkStatus());
    const auto manifest = ReadManifest(*temporary);
    const absl::Status committed = folder_.Commit(*temporary, *manifest);
    return committed.ok() ? folder_.PointToLatest(step) : committed;
  }
  void SaveAll(const std::vector<int64_t>& steps) {
    for (const int64_t step : steps) {
      ASSERT_EQ(Save(step), absl::OkStatus());
    }
  }
  std::vector<int64_t> Steps() const {
    std::vector<int64_t> steps;
    const auto found = ListCheckpoints(path_);
    EXPECT_TRUE(found.ok()) << found.status();
    for (const CheckpointName& checkpoint : *found) {
      EXPECT_TRUE(VerifyCheckpoint(checkpoint.path).ok());
      EXPECT_EQ(ReadManifest(checkpoint.path)->step(), checkpoint.step);
      steps.push_back(checkpoint.step);
    }
    return steps;
  }
  std::vector<std::string> Names() const { return NamesIn(path_); }
  void Touch(const std::string& name) {
    std::ofstream(path_ + "/" + name) << "mine";
  }

  const std::string path_ = CheckpointsFolder(MakeFolderForTest());
  CheckpointFolder folder_{path_, FileSystem::Posix()};
};

TEST_F(CheckpointFolderTest, WithoutAFolderThereAreNoCheckpoints) {
  EXPECT_THAT(Steps(), IsEmpty());
}

TEST_F(CheckpointFolderTest, CommittedFilesAreACheckpoint) {
  const auto temporary = folder_.Begin(5);
  ASSERT_TRUE(temporary.ok()) << temporary.status();
  EXPECT_THAT(*temporary,
              MatchesRegex(path_ + "/step-00000005.tmp-[0-9a-f]{16}"));
  EXPECT_THAT(Steps(), IsEmpty());
  ASSERT_TRUE(Save(5).ok());
  EXPECT_THAT(Steps(), ElementsAre(5));
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000005"));
  EXPECT_EQ(*ReadFile(path_ + "/latest", 100), "step-00000005\n");
}

TEST_F(CheckpointFolderTest, TheNewestComesFirst) {
  SaveAll({99999999, 100000000, 7});
  EXPECT_THAT(Steps(), ElementsAre(100000000, 99999999, 7));
}

TEST_F(CheckpointFolderTest, NamesOfOthersAreNoCheckpoints) {
  SaveAll({1});
  for (const char* name :
       {"step-1", "step-000000002", "step-00000002x", "step--0000002",
        "step-+0000002", " step-00000002", "step-", "Step-00000002",
        "step-00000002.old-0123456789abcdef", "step-99999999999999999999"}) {
    Touch(name);
  }
  EXPECT_THAT(Steps(), ElementsAre(1));
}

TEST_F(CheckpointFolderTest, BeginRemovesWhatACrashHasLeft) {
  SaveAll({1});
  const auto first = folder_.Begin(2);
  ASSERT_TRUE(WriteCheckpointFiles(FactsOf(2), *first).ok());
  Touch("latest.tmp-0123456789abcdef");
  const auto second = folder_.Begin(3);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000001",
                                   StartsWith("step-00000003.tmp-")));
}

TEST_F(CheckpointFolderTest, NamesOfOthersAreNeverTouched) {
  const std::vector<std::string> foreign = {
      "best",
      "latest.tmp-mine",
      "later.tmp-0123456789abcdef",
      "notes.tmp-0123456789abcdef",
      "step-00000001.old-0123456789abcdef",
      "step-00000001.tmp-copy",
      "step-00000001.tmp-0123456789abcdefg",
      "step-1.tmp-0123456789abcdef",
      "step-mine.tmp-0123456789abcdef"};
  std::filesystem::create_directories(path_);
  for (const std::string& name : foreign) Touch(name);
  SaveAll({1, 2, 3});
  ASSERT_TRUE(folder_.Prune({/*keep_last=*/1}).ok());
  std::vector<std::string> expected = foreign;
  expected.insert(expected.end(), {"latest", "step-00000003"});
  EXPECT_THAT(Names(), testing::UnorderedElementsAreArray(expected));
}

TEST_F(CheckpointFolderTest, DiscardRemovesWhatBeginHasMade) {
  const auto temporary = folder_.Begin(2);
  ASSERT_TRUE(WriteCheckpointFiles(FactsOf(2), *temporary).ok());
  folder_.Discard(*temporary);
  EXPECT_THAT(Names(), IsEmpty());
  folder_.Discard(*temporary);
}

TEST_F(CheckpointFolderTest, ACheckpointOfTheSameStepIsKeptAside) {
  SaveAll({1, 2});
  ASSERT_TRUE(Save(2, /*servers=*/2).ok());
  EXPECT_THAT(Steps(), ElementsAre(2, 1));
  EXPECT_EQ(ReadManifest(path_ + "/step-00000002")->servers(), 2);
  const std::string aside = Names().back();
  EXPECT_THAT(aside, MatchesRegex("step-00000002.old-[0-9a-f]{16}"));
  EXPECT_EQ(ReadManifest(path_ + "/" + aside)->servers(), 1);
  // It is for people: nothing removes it.
  SaveAll({3, 4});
  ASSERT_TRUE(folder_.Prune({/*keep_last=*/1}).ok());
  EXPECT_THAT(Names(), ElementsAre("latest", aside, "step-00000004"));
}

// Where the file system cannot exchange names.
class WithoutExchange : public FaultyFileSystem {
 public:
  using FaultyFileSystem::FaultyFileSystem;
  absl::Status Exchange(const std::string&, const std::string&) override {
    return absl::UnimplementedError("not on this file system");
  }
};

TEST_F(CheckpointFolderTest, ACheckpointIsKeptAsideOnAnyFileSystem) {
  SaveAll({2});
  WithoutExchange files(FolderOf(path_));
  ASSERT_EQ(SaveCheckpoint(FactsOf(2, 2), path_, &files), absl::OkStatus());
  EXPECT_THAT(Steps(), ElementsAre(2));
  EXPECT_EQ(ReadManifest(path_ + "/step-00000002")->servers(), 2);
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000002",
                                   StartsWith("step-00000002.old-")));
}

TEST_F(CheckpointFolderTest, WhatNobodyCouldReadIsNotCommitted) {
  SaveAll({1});
  const auto temporary = folder_.Begin(2);
  CheckpointManifest manifest = MakeManifest(FactsOf(2));
  // Files are missing in it.
  const absl::Status committed = folder_.Commit(*temporary, manifest);
  EXPECT_EQ(committed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(Steps(), ElementsAre(1));
}

TEST_F(CheckpointFolderTest, PruneKeepsTheNewest) {
  SaveAll({1, 2, 3, 4, 5});
  ASSERT_TRUE(folder_.Prune({/*keep_last=*/2}).ok());
  EXPECT_THAT(Steps(), ElementsAre(5, 4));
  ASSERT_TRUE(folder_.Prune({/*keep_last=*/2}).ok());
  EXPECT_THAT(Steps(), ElementsAre(5, 4));
  EXPECT_THAT(Names(), ElementsAre("latest", "step-00000004", "step-00000005"));
}

TEST_F(CheckpointFolderTest, PruneKeepsMilestonesBesides) {
  SaveAll({10, 15, 20, 25, 30, 35, 40});
  ASSERT_TRUE(folder_.Prune({/*keep_last=*/2, /*keep_every=*/20}).ok());
  EXPECT_THAT(Steps(), ElementsAre(40, 35, 20));
}

TEST_F(CheckpointFolderTest, PruneKeepsAll) {
  SaveAll({1, 2, 3});
  ASSERT_TRUE(folder_.Prune({/*keep_last=*/0, /*keep_every=*/2}).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 2, 1));
  ASSERT_TRUE(folder_.Prune({/*keep_last=*/10}).ok());
  EXPECT_THAT(Steps(), ElementsAre(3, 2, 1));
}

TEST_F(CheckpointFolderTest, PruneWithoutAFolderIsNothing) {
  EXPECT_TRUE(folder_.Prune({/*keep_last=*/1}).ok());
}

TEST_F(CheckpointFolderTest, PruneCountsWhatEarlierProcessesSaved) {
  SaveAll({1, 2, 3});
  CheckpointFolder other(path_, FileSystem::Posix());
  ASSERT_TRUE(other.Prune({/*keep_last=*/1}).ok());
  EXPECT_THAT(Steps(), ElementsAre(3));
}

// Steps 3 and 4 were damaged, and training has gone on from step 1.
TEST_F(CheckpointFolderTest, PruneNeverTakesTheGoodForTheDamaged) {
  SaveAll({1, 3, 4});
  CheckpointFolder resumed(path_, FileSystem::Posix());
  const auto temporary = resumed.Begin(2);
  ASSERT_TRUE(WriteCheckpointFiles(FactsOf(2), *temporary).ok());
  ASSERT_TRUE(resumed.Commit(*temporary, *ReadManifest(*temporary)).ok());
  ASSERT_TRUE(resumed.Prune({/*keep_last=*/2}).ok());
  EXPECT_THAT(Steps(), ElementsAre(4, 3, 2, 1));
}

}  // namespace
}  // namespace tributary
