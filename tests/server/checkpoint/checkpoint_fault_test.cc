// Rows of faults while a checkpoint is saved: every call to the disk fails
// once, the disk is full at any byte, and the power is cut after any call.
#include <cerrno>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/os/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "tests/server/checkpoint/checkpoint_fixture.h"
#include "tests/support/faulty_file_system.h"

namespace tributary {
namespace {

constexpr int kRandomCuts = 3;

CheckpointFacts FactsOfStep(int64_t step, int servers = 2) {
  CheckpointFacts facts;
  facts.table = MakeTable({{3}, {5, 7}, {40}}, 32);
  facts.state = {"momentum_buffer"};
  facts.servers = servers;
  facts.step = step;
  return facts;
}

// A run's folder on a disk of its own.
class FaultyRun {
 public:
  // Saves as a process does that is started anew, and removes what need not
  // stay. Whether the save went well: what Prune says is of no account.
  bool Save(const CheckpointFacts& facts) {
    CheckpointFolder checkpoints(folder_, &disk_);
    if (!SaveCheckpoint(facts, folder_, &disk_).ok()) return false;
    checkpoints.Prune({/*keep_last=*/2}).IgnoreError();
    return true;
  }

  // What was not synced is lost: all of it with seed 0, otherwise some.
  void CutPower(int seed = 0) {
    if (seed == 0) {
      disk_.LoseUnsynced();
    } else {
      disk_.LoseUnsynced(static_cast<uint64_t>(seed));
    }
  }

  // The step of the newest checkpoint that is whole; 0: none. All that are
  // listed must be, unless `may_be_damaged`.
  int64_t NewestGood(bool may_be_damaged = false) const {
    const auto checkpoints = ListCheckpoints(folder_);
    EXPECT_TRUE(checkpoints.ok()) << checkpoints.status();
    int64_t newest = 0;
    for (const CheckpointName& checkpoint : *checkpoints) {
      const absl::Status whole = Check(checkpoint.path);
      EXPECT_TRUE(whole.ok() || may_be_damaged) << whole;
      if (whole.ok() && newest == 0) newest = checkpoint.step;
    }
    return newest;
  }

  std::vector<std::string> Names() const { return NamesIn(folder_); }
  int ServersOf(int64_t step) const {
    const auto manifest =
        ReadManifest(absl::StrCat(folder_, "/step-0000000", step));
    return manifest.ok() ? manifest->servers() : 0;
  }

  FaultyFileSystem* disk() { return &disk_; }

 private:
  static absl::Status Check(const std::string& path) {
    const absl::Status whole = VerifyCheckpoint(path);
    if (!whole.ok()) return whole;
    const int64_t step = ReadManifest(path)->step();
    return CheckCheckpoint(FactsOfStep(step), path, 1, 64);
  }

  FaultyFileSystem disk_{MakeFolderForTest()};
  const std::string folder_ = CheckpointsFolder(disk_.root());
};

// What happens on the disk before the save that meets the fault, that save, and
// which step it leaves behind.
struct Scenario {
  std::string name;
  std::vector<CheckpointFacts> before;
  CheckpointFacts save;
};

void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

std::vector<Scenario> Scenarios() {
  return {
      {"First", {}, FactsOfStep(1)},
      // Step 1 is removed.
      {"Later", {FactsOfStep(1), FactsOfStep(2)}, FactsOfStep(3)},
      {"TheSameStepAgain", {FactsOfStep(1, /*servers=*/1)}, FactsOfStep(1)},
  };
}

class CheckpointFaultTest : public testing::TestWithParam<Scenario> {
 protected:
  // A run that is ready for the save.
  static void Prepare(FaultyRun* run) {
    for (const CheckpointFacts& facts : GetParam().before) {
      ASSERT_TRUE(run->Save(facts));
    }
    run->disk()->Heal();
  }
  static int64_t Previous() {
    return GetParam().before.empty() ? 0 : GetParam().before.back().step;
  }
  static int64_t New() { return GetParam().save.step; }

  // The calls of a save that meets no fault.
  static std::vector<std::string> Calls() {
    FaultyRun run;
    Prepare(&run);
    EXPECT_TRUE(run.Save(GetParam().save));
    return run.disk()->Operations();
  }

  static FaultyFileSystem::Fault FaultAt(size_t call, int error_number,
                                         bool lasting = false) {
    FaultyFileSystem::Fault fault;
    fault.operation = static_cast<int64_t>(call);
    fault.error_number = error_number;
    fault.lasting = lasting;
    return fault;
  }

  static void ExpectPreviousOrNew(const FaultyRun& run, bool saved) {
    const int64_t newest = run.NewestGood();
    EXPECT_TRUE(newest == New() || (!saved && newest == Previous()))
        << newest << (saved ? " after a save" : " without a save");
    if (saved) {
      EXPECT_EQ(run.ServersOf(New()), GetParam().save.servers);
    }
  }

  // The next save goes well, and nothing stays of the one before.
  static void ExpectNextSave(FaultyRun* run) {
    run->disk()->Heal();
    const CheckpointFacts next = FactsOfStep(4);
    ASSERT_TRUE(run->Save(next));
    EXPECT_EQ(run->NewestGood(), 4);
    for (const std::string& name : run->Names()) {
      EXPECT_FALSE(absl::StrContains(name, ".tmp-")) << name;
    }
    run->CutPower();
    EXPECT_EQ(run->NewestGood(), 4);
  }
};

INSTANTIATE_TEST_SUITE_P(Scenarios, CheckpointFaultTest,
                         testing::ValuesIn(Scenarios()),
                         [](const auto& info) { return info.param.name; });

TEST_P(CheckpointFaultTest, WithoutFaultTheCheckpointIsSaved) {
  FaultyRun run;
  Prepare(&run);
  ASSERT_TRUE(run.Save(GetParam().save));
  ExpectPreviousOrNew(run, true);
  // At once.
  run.CutPower();
  ExpectPreviousOrNew(run, true);
  ExpectNextSave(&run);
}

// Row 23.
TEST_P(CheckpointFaultTest, AnyCallMayFail) {
  const std::vector<std::string> calls = Calls();
  for (size_t n = 0; n < calls.size(); ++n) {
    for (const int error_number : {EIO, ENOSPC}) {
      SCOPED_TRACE(absl::StrCat("call ", n, ": ", calls[n]));
      FaultyRun run;
      Prepare(&run);
      FaultyFileSystem::Fault fault = FaultAt(n, error_number);
      fault.short_write_bytes = 3;
      run.disk()->SetFault(fault);
      const bool saved = run.Save(GetParam().save);
      ExpectPreviousOrNew(run, saved);
      ExpectNextSave(&run);
    }
  }
}

// The same, and the power is cut before anybody has tried again.
TEST_P(CheckpointFaultTest, AnyCallMayFailBeforeAPowerCut) {
  const std::vector<std::string> calls = Calls();
  for (size_t n = 0; n < calls.size(); ++n) {
    for (int seed = 0; seed <= kRandomCuts; ++seed) {
      SCOPED_TRACE(absl::StrCat("call ", n, ": ", calls[n], ", seed ", seed));
      FaultyRun run;
      Prepare(&run);
      run.disk()->SetFault(FaultAt(n, EIO));
      const bool saved = run.Save(GetParam().save);
      run.CutPower(seed);
      ExpectPreviousOrNew(run, saved);
    }
  }
}

// The disk turns read-only, or goes away, and comes back.
TEST_P(CheckpointFaultTest, AllCallsMayFailFromOneOn) {
  const std::vector<std::string> calls = Calls();
  for (size_t n = 0; n < calls.size(); ++n) {
    SCOPED_TRACE(absl::StrCat("call ", n, ": ", calls[n]));
    FaultyRun run;
    Prepare(&run);
    run.disk()->SetFault(FaultAt(n, EROFS, /*lasting=*/true));
    const bool saved = run.Save(GetParam().save);
    ExpectPreviousOrNew(run, saved);
    ExpectNextSave(&run);
  }
}

// Row 22.
TEST_P(CheckpointFaultTest, TheDiskMayBeFullAtAnyByte) {
  for (int64_t room = 0;; room += 61) {
    SCOPED_TRACE(absl::StrCat("room for ", room, " bytes"));
    FaultyRun run;
    Prepare(&run);
    run.disk()->SetCapacity(run.disk()->UsedBytes() + room);
    const bool saved = run.Save(GetParam().save);
    ExpectPreviousOrNew(run, saved);
    ExpectNextSave(&run);
    if (saved) break;
  }
}

// Row 24. Nothing happens after the cut: the process is gone too.
TEST_P(CheckpointFaultTest, ThePowerMayBeCutAfterAnyCall) {
  const std::vector<std::string> calls = Calls();
  for (size_t n = 0; n <= calls.size(); ++n) {
    for (int seed = 0; seed <= kRandomCuts; ++seed) {
      SCOPED_TRACE(absl::StrCat(n, " of ", calls.size(), " calls, up to ",
                                n > 0 ? calls[n - 1] : "none", ", seed ",
                                seed));
      FaultyRun run;
      Prepare(&run);
      run.disk()->SetFault(FaultAt(n, EIO, /*lasting=*/true));
      const bool saved = run.Save(GetParam().save);
      run.CutPower(seed);
      ExpectPreviousOrNew(run, saved);
      if (seed <= 1) ExpectNextSave(&run);
    }
  }
}

// That these tests can fail: a disk that only says that it has synced a folder
// loses what was saved.
TEST(CheckpointLieTest, WithoutSyncedFoldersASaveIsLost) {
  FaultyRun run;
  ASSERT_TRUE(run.Save(FactsOfStep(1)));
  FaultyFileSystem::Lies lies;
  lies.sync_folder = true;
  run.disk()->SetLies(lies);
  ASSERT_TRUE(run.Save(FactsOfStep(2)));
  EXPECT_EQ(run.NewestGood(), 2);
  run.CutPower();
  EXPECT_EQ(run.NewestGood(), 1);
}

// One that says so of files leaves a checkpoint behind that is damaged; the one
// before it is found.
TEST(CheckpointLieTest, WithoutSyncedFilesASaveIsDamaged) {
  FaultyRun run;
  ASSERT_TRUE(run.Save(FactsOfStep(1)));
  FaultyFileSystem::Lies lies;
  lies.sync = true;
  run.disk()->SetLies(lies);
  ASSERT_TRUE(run.Save(FactsOfStep(2)));
  run.CutPower();
  EXPECT_EQ(run.NewestGood(/*may_be_damaged=*/true), 1);
  EXPECT_THAT(run.Names(), testing::Contains("step-00000002"));
}

}  // namespace
}  // namespace tributary
