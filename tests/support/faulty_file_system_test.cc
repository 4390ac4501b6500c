#include "tests/support/faulty_file_system.h"

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FaultyFileSystemTest : public testing::Test {
 protected:
  FaultyFileSystemTest() : root_(MakeRoot()), disk_(root_) {}

  static std::string MakeRoot() {
    std::string folder = testing::TempDir() + "/faulty_XXXXXX";
    return mkdtemp(folder.data());
  }

  std::unique_ptr<WritableFile> Create(const std::string& name) {
    auto file = disk_.Create(root_ + "/" + name);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }
  void WriteSynced(const std::string& name, const std::string& bytes) {
    const auto file = Create(name);
    ASSERT_TRUE(file->Append(bytes).ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Close().ok());
  }
  void SyncRoot() { ASSERT_TRUE(disk_.SyncFolder(root_).ok()); }
  std::string Read(const std::string& name) const {
    const auto text = ReadFile(root_ + "/" + name, 1000);
    return text.ok() ? *text : std::string(text.status().message());
  }
  std::vector<std::string> Names(const std::string& folder = "") const {
    return *ListFolder(root_ + "/" + folder);
  }

  const std::string root_;
  FaultyFileSystem disk_;
};

TEST_F(FaultyFileSystemTest, PassesCallsOnToRealFiles) {
  ASSERT_TRUE(disk_.MakeFolder(root_ + "/d").ok());
  WriteSynced("d/f", "text");
  EXPECT_EQ(Read("d/f"), "text");
  ASSERT_TRUE(disk_.Rename(root_ + "/d/f", root_ + "/d/g").ok());
  EXPECT_THAT(Names("d"), ElementsAre("g"));
  EXPECT_THAT(disk_.Remove(root_ + "/d"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("cannot remove " + root_ + "/d")));
  ASSERT_TRUE(disk_.Remove(root_ + "/d/g").ok());
  ASSERT_TRUE(disk_.Remove(root_ + "/d").ok());
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT(disk_.Operations(),
              ElementsAre("make folder /d", "create /d/f", "append /d/f",
                          "sync /d/f", "close /d/f", "rename /d/f", "remove /d",
                          "remove /d/g", "remove /d"));
}

TEST_F(FaultyFileSystemTest, FailsTheCallThatWasAskedFor) {
  disk_.SetFault({/*operation=*/1, /*error_number=*/EIO});
  const auto file = Create("f");
  const absl::Status failed = file->Append("lost");
  EXPECT_THAT(std::string(failed.message()), HasSubstr("cannot append"));
  EXPECT_THAT(std::string(failed.message()), HasSubstr(root_ + "/f"));
  EXPECT_TRUE(file->Append("kept").ok());
  EXPECT_EQ(Read("f"), "kept");
}

TEST_F(FaultyFileSystemTest, ALastingFaultFailsAllThatFollows) {
  FaultyFileSystem::Fault fault;
  fault.operation = 1;
  fault.error_number = EROFS;
  fault.lasting = true;
  disk_.SetFault(fault);
  const auto file = Create("f");
  const auto refused = [](const char* what) {
    return StatusIs(absl::StatusCode::kPermissionDenied,
                    HasSubstr(absl::StrCat("cannot ", what)));
  };
  EXPECT_THAT(file->Append("x"), refused("append"));
  EXPECT_THAT(file->Sync(), refused("sync"));
  EXPECT_THAT(file->Close(), refused("close"));
  EXPECT_THAT(disk_.Create(root_ + "/g"), refused("create"));
  EXPECT_THAT(disk_.Rename(root_ + "/f", root_ + "/h"), refused("rename"));
  EXPECT_THAT(disk_.SyncFolder(root_), refused("sync folder"));
  EXPECT_THAT(disk_.MakeFolder(root_ + "/d"), refused("make folder"));
  EXPECT_THAT(disk_.Remove(root_ + "/f"), refused("remove"));
  EXPECT_THAT(Names(), ElementsAre("f"));
  EXPECT_EQ(Read("f"), "");
  disk_.Heal();
  EXPECT_TRUE(disk_.Remove(root_ + "/f").ok());
}

TEST_F(FaultyFileSystemTest, AWriteCanBeCutShort) {
  FaultyFileSystem::Fault fault;
  fault.operation = 1;
  fault.error_number = EIO;
  fault.short_write_bytes = 2;
  disk_.SetFault(fault);
  const auto file = Create("f");
  EXPECT_THAT(file->Append("text"),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("cannot append")));
  EXPECT_EQ(Read("f"), "te");
}

TEST_F(FaultyFileSystemTest, TheDiskIsFullAtTheByteThatWasSaid) {
  disk_.SetCapacity(6);
  WriteSynced("f", "four");
  const auto file = Create("g");
  const absl::Status full = file->Append("four");
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Read("g"), "fo");
  ASSERT_TRUE(disk_.Remove(root_ + "/f").ok());
  EXPECT_TRUE(file->Append("four").ok());
  EXPECT_THAT(file->Append("x"),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(FaultyFileSystemTest, WhatIsSyncedUnderASyncedNameSurvives) {
  WriteSynced("f", "text");
  SyncRoot();
  const auto file = Create("unsynced name");
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), ElementsAre("f"));
  EXPECT_EQ(Read("f"), "text");
  EXPECT_THAT(file->Append("x"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(FaultyFileSystemTest, SyncedBytesWithoutANameAreLost) {
  WriteSynced("f", "text");
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(FaultyFileSystemTest, UnsyncedBytesAreLost) {
  const auto file = Create("f");
  ASSERT_TRUE(file->Append("synced ").ok());
  ASSERT_TRUE(file->Sync().ok());
  ASSERT_TRUE(file->Append("not").ok());
  ASSERT_TRUE(file->Close().ok());
  SyncRoot();
  EXPECT_EQ(Read("f"), "synced not");
  disk_.LoseUnsynced();
  EXPECT_EQ(Read("f"), "synced ");
}

TEST_F(FaultyFileSystemTest, AfterAFailedSyncNoOtherSavesTheBytes) {
  disk_.SetFault({/*operation=*/2, /*error_number=*/EIO});
  const auto file = Create("f");
  ASSERT_TRUE(file->Append("text").ok());
  EXPECT_THAT(file->Sync(),
              StatusIs(absl::StatusCode::kUnknown, HasSubstr("cannot sync")));
  EXPECT_TRUE(file->Sync().ok());
  SyncRoot();
  disk_.LoseUnsynced();
  EXPECT_EQ(Read("f"), "");
}

TEST_F(FaultyFileSystemTest, RenamesAndRemovesAreUndone) {
  WriteSynced("a", "1");
  WriteSynced("b", "2");
  WriteSynced("c", "3");
  SyncRoot();
  ASSERT_TRUE(disk_.Rename(root_ + "/a", root_ + "/b").ok());
  ASSERT_TRUE(disk_.Remove(root_ + "/c").ok());
  EXPECT_THAT(Names(), ElementsAre("b"));
  EXPECT_EQ(Read("b"), "1");
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(Read("a"), "1");
  EXPECT_EQ(Read("b"), "2");
  EXPECT_EQ(Read("c"), "3");
}

TEST_F(FaultyFileSystemTest, RenamesThatWereSyncedStay) {
  WriteSynced("a", "1");
  WriteSynced("b", "2");
  SyncRoot();
  ASSERT_TRUE(disk_.Rename(root_ + "/a", root_ + "/b").ok());
  SyncRoot();
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), ElementsAre("b"));
  EXPECT_EQ(Read("b"), "1");
}

TEST_F(FaultyFileSystemTest, AnExchangeIsDoneOrNot) {
  WriteSynced("a", "1");
  WriteSynced("b", "2");
  SyncRoot();
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    ASSERT_TRUE(disk_.Exchange(root_ + "/a", root_ + "/b").ok());
    disk_.LoseUnsynced(seed);
    seen.insert(Read("a") + Read("b"));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"12", "21"}));
  EXPECT_THAT(disk_.Exchange(root_ + "/a", root_ + "/c"),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(FaultyFileSystemTest, AFileMayMoveToAnotherFolder) {
  ASSERT_TRUE(disk_.MakeFolder(root_ + "/d").ok());
  WriteSynced("f", "1");
  SyncRoot();
  ASSERT_TRUE(disk_.Rename(root_ + "/f", root_ + "/d/f").ok());
  ASSERT_TRUE(disk_.SyncFolder(root_ + "/d").ok());
  SyncRoot();
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), ElementsAre("d"));
  EXPECT_EQ(Read("d/f"), "1");
}

TEST_F(FaultyFileSystemTest, AFolderTakesItsNamesAlong) {
  ASSERT_TRUE(disk_.MakeFolder(root_ + "/old").ok());
  WriteSynced("old/synced", "1");
  ASSERT_TRUE(disk_.SyncFolder(root_ + "/old").ok());
  WriteSynced("old/lost", "2");
  ASSERT_TRUE(disk_.Rename(root_ + "/old", root_ + "/new").ok());
  SyncRoot();
  EXPECT_THAT(Names("new"), ElementsAre("lost", "synced"));
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), ElementsAre("new"));
  EXPECT_THAT(Names("new"), ElementsAre("synced"));
}

TEST_F(FaultyFileSystemTest, SyncingAFolderSavesNoNameAboveIt) {
  ASSERT_TRUE(disk_.MakeFolder(root_ + "/d").ok());
  WriteSynced("d/f", "1");
  ASSERT_TRUE(disk_.SyncFolder(root_ + "/d").ok());
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(FaultyFileSystemTest, ARemovedFolderComesBackWithItsFiles) {
  ASSERT_TRUE(disk_.MakeFolder(root_ + "/d").ok());
  WriteSynced("d/f", "1");
  ASSERT_TRUE(disk_.SyncFolder(root_ + "/d").ok());
  SyncRoot();
  ASSERT_TRUE(disk_.Remove(root_ + "/d/f").ok());
  ASSERT_TRUE(disk_.Remove(root_ + "/d").ok());
  disk_.LoseUnsynced();
  EXPECT_EQ(Read("d/f"), "1");
}

TEST_F(FaultyFileSystemTest, ItGoesOnAfterAPowerCut) {
  WriteSynced("f", "1");
  SyncRoot();
  disk_.LoseUnsynced();
  WriteSynced("g", "2");
  SyncRoot();
  ASSERT_TRUE(disk_.Remove(root_ + "/f").ok());
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), ElementsAre("f", "g"));
}

TEST_F(FaultyFileSystemTest, OfWhatWasNotSyncedAnyPartMayRemain) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto file = Create("f");
    ASSERT_TRUE(file->Append("a").ok());
    ASSERT_TRUE(file->Sync().ok());
    ASSERT_TRUE(file->Append("bc").ok());
    ASSERT_TRUE(disk_.Rename(root_ + "/f", root_ + "/g").ok());
    disk_.LoseUnsynced(seed);
    for (const std::string& name : Names()) {
      seen.insert(name + " " + Read(name));
      ASSERT_TRUE(disk_.Remove(root_ + "/" + name).ok());
    }
    SyncRoot();
  }
  const auto zeros = [](const std::string& text, size_t count) {
    return text + std::string(count, '\0');
  };
  std::set<std::string> expected;
  for (const std::string name : {"f ", "g "}) {
    for (const std::string& bytes :
         {zeros("a", 0), zeros("ab", 0), zeros("abc", 0), zeros("a", 1),
          zeros("a", 2), zeros("ab", 1)}) {
      expected.insert(name + bytes);
    }
  }
  EXPECT_EQ(seen, expected);
}

TEST_F(FaultyFileSystemTest, LiesLoseWhatWasSaidToBeSynced) {
  FaultyFileSystem::Lies lies;
  lies.sync_folder = true;
  disk_.SetLies(lies);
  WriteSynced("f", "1");
  SyncRoot();
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), IsEmpty());

  disk_.Heal();
  lies.sync_folder = false;
  lies.sync = true;
  disk_.SetLies(lies);
  WriteSynced("f", "1");
  SyncRoot();
  disk_.LoseUnsynced();
  EXPECT_EQ(Read("f"), "");
}

TEST_F(FaultyFileSystemTest, FilesMadeByOtherWaysAreKeptAfterARescan) {
  std::ofstream(root_ + "/f") << "1";
  disk_.Rescan();
  std::ofstream(root_ + "/g") << "2";
  disk_.LoseUnsynced();
  EXPECT_THAT(Names(), ElementsAre("f"));
  EXPECT_EQ(Read("f"), "1");
}

TEST_F(FaultyFileSystemTest, RefusesPathsOfOthers) {
  EXPECT_EQ(disk_.Create(testing::TempDir() + "/f").status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace tributary
