#include "server/membership/stage_assignment.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Shares = std::vector<StageShare>;

StageShare Share(int replica, int begin, int end) {
  return {replica, {begin, end}};
}

std::string Print(const Shares& shares) {
  std::string text;
  for (const StageShare& share : shares) {
    absl::StrAppend(&text, share.replica, ":[", share.stages.begin, ", ",
                    share.stages.end, ") ");
  }
  return text;
}

// The shares of `workers` workers that have none yet.
Shares Start(const StageAssignment& assignment, int workers) {
  return assignment.Place(Shares(workers));
}

Shares Without(Shares shares, int worker) {
  shares.erase(shares.begin() + worker);
  return shares;
}

std::set<int> ReplicasOf(const Shares& shares) {
  std::set<int> replicas;
  for (const StageShare& share : shares) {
    if (!share.spare()) replicas.insert(share.replica);
  }
  return replicas;
}

// Checks what holds for all shares that Place returns.
void Check(const StageAssignment& assignment, const Shares& shares) {
  SCOPED_TRACE(Print(shares));
  const int stages = assignment.stages();
  const std::set<int> replicas = ReplicasOf(shares);
  const int replica_count = static_cast<int>(replicas.size());
  const int workers = static_cast<int>(shares.size());
  const int spares = static_cast<int>(
      std::count_if(shares.begin(), shares.end(),
                    [](const StageShare& share) { return share.spare(); }));
  ASSERT_LE(replica_count, assignment.micro_batches());
  ASSERT_GE(replica_count,
            std::clamp(workers / stages, 1, assignment.micro_batches()));
  for (const int replica : replicas) {
    std::vector<int> times(stages, 0);
    int members = 0;
    int most = 0;
    for (const StageShare& share : shares) {
      if (share.replica != replica) continue;
      ASSERT_FALSE(share.stages.empty());
      ++members;
      most = std::max(most, share.stages.size());
      for (int s = share.stages.begin; s < share.stages.end; ++s) ++times[s];
    }
    EXPECT_THAT(times, ::testing::Each(1));
    EXPECT_EQ(most, (stages + members - 1) / members);
    const int with_spares = std::min(stages, members + spares);
    EXPECT_EQ(most, (stages + with_spares - 1) / with_spares)
        << "a spare would make replica " << replica << " faster";
    const std::vector<size_t> complete = assignment.Complete(
        replica, shares, std::vector<bool>(shares.size(), true));
    EXPECT_EQ(static_cast<int>(complete.size()), members);
  }
  for (const StageShare& share : shares) {
    EXPECT_EQ(share.spare(), share.stages.empty());
  }
  if (workers <= stages) {
    EXPECT_EQ(replica_count, 1);
  }
  EXPECT_EQ(assignment.Place(shares), shares) << "changes without a reason";
}

TEST(StageAssignmentTest, ConsecutiveRanksFormAReplica) {
  const StageAssignment assignment(/*stages=*/2, /*micro_batches=*/4);
  EXPECT_THAT(Start(assignment, 5),
              ElementsAre(Share(0, 0, 1), Share(0, 1, 2), Share(1, 0, 1),
                          Share(1, 1, 2), StageShare()));
}

TEST(StageAssignmentTest, FewWorkersComputeSeveralStages) {
  const StageAssignment assignment(/*stages=*/5, /*micro_batches=*/4);
  EXPECT_THAT(Start(assignment, 1), ElementsAre(Share(0, 0, 5)));
  const Shares two = Start(assignment, 2);
  Check(assignment, two);
  EXPECT_EQ(two[0].stages.end, two[1].stages.begin);
}

TEST(StageAssignmentTest, NoReplicaIsWithoutAMicroBatch) {
  const StageAssignment assignment(/*stages=*/2, /*micro_batches=*/2);
  const Shares shares = Start(assignment, 9);
  EXPECT_EQ(ReplicasOf(shares), (std::set<int>{0, 1}));
  Check(assignment, shares);
}

TEST(StageAssignmentTest, ASpareReplacesALostWorker) {
  const StageAssignment assignment(/*stages=*/3, /*micro_batches=*/4);
  for (int lost = 0; lost < 3; ++lost) {
    const Shares before = Without(Start(assignment, 4), lost);
    const Shares after = assignment.Place(before);
    Check(assignment, after);
    EXPECT_EQ(after[0], before[0]);
    EXPECT_EQ(after[1], before[1]);
    EXPECT_EQ(after[2], Share(0, lost, lost + 1));
  }
}

TEST(StageAssignmentTest, WithoutASpareANeighbourTakesTheLostStage) {
  const StageAssignment assignment(/*stages=*/4, /*micro_batches=*/4);
  for (int lost = 0; lost < 4; ++lost) {
    const Shares before = Without(Start(assignment, 4), lost);
    const Shares after = assignment.Place(before);
    Check(assignment, after);
    int changed = 0;
    for (int i = 0; i < 3; ++i) changed += before[i] != after[i];
    EXPECT_EQ(changed, 1) << Print(after);
  }
}

TEST(StageAssignmentTest, AWorkerThatReturnsGetsOneOfTheNeighboursStages) {
  const StageAssignment assignment(/*stages=*/4, /*micro_batches=*/4);
  const Shares before = assignment.Place(Without(Start(assignment, 4), 2));
  Shares with = before;
  with.push_back(StageShare());
  const Shares after = assignment.Place(with);
  Check(assignment, after);
  int changed = 0;
  for (int i = 0; i < 3; ++i) changed += before[i] != after[i];
  EXPECT_EQ(changed, 1) << Print(after);
  EXPECT_EQ(after[3].stages.size(), 1);
}

// Two workers with two stages each are not slower than three workers, one of
// which has two stages.
TEST(StageAssignmentTest, ASpareStaysSpareIfItMakesNoReplicaFaster) {
  const StageAssignment assignment(/*stages=*/4, /*micro_batches=*/4);
  const Shares shares = {Share(0, 0, 2), Share(0, 2, 4), StageShare()};
  // The only replica uses all of its workers when it begins.
  EXPECT_EQ(assignment.Place(shares), shares);
}

TEST(StageAssignmentTest, AGivenUpReplicaRepairsTheOthers) {
  const StageAssignment assignment(/*stages=*/2, /*micro_batches=*/4);
  // Replica 0 has lost its second stage, and replica 1 its first.
  const Shares before = {Share(0, 0, 1), Share(1, 1, 2)};
  EXPECT_THAT(assignment.Place(before),
              ElementsAre(Share(0, 0, 1), Share(0, 1, 2)));
}

TEST(StageAssignmentTest, AReplicaContinuesWithHalfOfItsWorkers) {
  const StageAssignment assignment(/*stages=*/4, /*micro_batches=*/4);
  Shares shares = Start(assignment, 8);
  shares = assignment.Place(Without(shares, 7));
  shares = assignment.Place(Without(shares, 6));
  Check(assignment, shares);
  EXPECT_EQ(ReplicasOf(shares), (std::set<int>{0, 1}));
  shares = assignment.Place(Without(shares, 5));
  Check(assignment, shares);
  EXPECT_EQ(ReplicasOf(shares), (std::set<int>{0}));
  EXPECT_TRUE(shares.back().spare());
}

TEST(StageAssignmentTest, AReplicaThatIsLostAsAWholeLeavesTheOthersAsTheyAre) {
  const StageAssignment assignment(/*stages=*/2, /*micro_batches=*/4);
  Shares shares = Start(assignment, 6);
  shares.erase(shares.begin() + 2, shares.begin() + 4);
  EXPECT_EQ(assignment.Place(shares), shares);
  EXPECT_EQ(ReplicasOf(shares), (std::set<int>{0, 2}));
  // Workers that join form a replica with the free number.
  shares.resize(6);
  const Shares after = assignment.Place(shares);
  Check(assignment, after);
  EXPECT_EQ(after[4], Share(1, 0, 1));
  EXPECT_EQ(after[5], Share(1, 1, 2));
}

// While a worker hands a stage over, both have it.
TEST(StageAssignmentTest, AHandoverIsNotChosenAgain) {
  const StageAssignment assignment(/*stages=*/2, /*micro_batches=*/4);
  const Shares during = {Share(0, 0, 2), Share(0, 1, 2)};
  EXPECT_THAT(assignment.Place(during),
              ElementsAre(Share(0, 0, 1), Share(0, 1, 2)));
  // The new worker is lost, or the old one.
  EXPECT_THAT(assignment.Place({during[0]}), ElementsAre(Share(0, 0, 2)));
  EXPECT_THAT(assignment.Place({during[1]}), ElementsAre(Share(0, 0, 2)));
}

TEST(StageAssignmentTest, FindsWorkersThatCoverThePipeline) {
  const StageAssignment assignment(/*stages=*/3, /*micro_batches=*/4);
  const Shares shares = {Share(0, 1, 3), Share(0, 0, 1), Share(0, 1, 2),
                         Share(1, 2, 3), Share(0, 2, 3)};
  EXPECT_THAT(assignment.Complete(0, shares, {true, true, true, true, true}),
              ElementsAre(1, 2, 4));
  EXPECT_THAT(assignment.Complete(0, shares, {true, true, false, true, true}),
              ElementsAre(1, 0));
  EXPECT_THAT(assignment.Complete(0, shares, {true, false, true, true, true}),
              IsEmpty());
  EXPECT_THAT(assignment.Complete(1, shares, {true, true, true, true, true}),
              IsEmpty());
}

TEST(StageAssignmentTest, TheSlowestWorkerIsThePaceOfAReplica) {
  const Shares shares = {Share(0, 0, 2), Share(0, 2, 3)};
  std::vector<WorkerPace> paces(2);
  paces[0].micro_batch_seconds = 0.25;
  paces[1].micro_batch_seconds = 0.75;
  EXPECT_DOUBLE_EQ(
      StageAssignment::PaceOf({0, 1}, shares, paces).micro_batch_seconds, 0.75);
  paces[1].threads = 3;
  EXPECT_DOUBLE_EQ(
      StageAssignment::PaceOf({0, 1}, shares, paces).micro_batch_seconds, 0.5);
}

TEST(StageAssignmentTest, AllStartsAreValid) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int micro_batches = 1; micro_batches <= 4; ++micro_batches) {
      const StageAssignment assignment(stages, micro_batches);
      for (int workers = 1; workers <= 20; ++workers) {
        SCOPED_TRACE(absl::StrCat(stages, " stages, ", workers, " workers"));
        const Shares shares = Start(assignment, workers);
        Check(assignment, shares);
        EXPECT_THAT(ReplicasOf(shares),
                    SizeIs(std::clamp(workers / stages, 1, micro_batches)));
      }
    }
  }
}

// Tries every loss of up to three workers from every start.
TEST(StageAssignmentTest, AllLossesAreRepaired) {
  for (int stages = 1; stages <= 5; ++stages) {
    const StageAssignment assignment(stages, /*micro_batches=*/4);
    for (int workers = 1; workers <= 11; ++workers) {
      const Shares start = Start(assignment, workers);
      for (int a = 0; a < workers; ++a) {
        const Shares one = assignment.Place(Without(start, a));
        if (!one.empty()) Check(assignment, one);
        for (int b = 0; b + 1 < workers; ++b) {
          const Shares two = assignment.Place(Without(one, b));
          if (!two.empty()) Check(assignment, two);
          // Both at the same time.
          const Shares both = assignment.Place(Without(Without(start, a), b));
          if (!both.empty()) Check(assignment, both);
        }
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// A change of one worker must not move the others about: a loss that a spare
// replaces changes no other worker, and otherwise only workers of a replica
// that is given up, or of the replica that was hit.
TEST(StageAssignmentTest, RandomHistoriesKeepWorkersWhereTheyAre) {
  std::mt19937 random(7);
  for (int history = 0; history < 300; ++history) {
    const int stages = 1 + static_cast<int>(random() % 6);
    const int micro_batches = 1 + static_cast<int>(random() % 6);
    const StageAssignment assignment(stages, micro_batches);
    Shares shares = Start(assignment, 1 + static_cast<int>(random() % 14));
    for (int event = 0; event < 40; ++event) {
      const bool joins = shares.size() < 2 || random() % 2 == 0;
      Shares before = shares;
      StageShare lost;
      if (joins) {
        before.insert(before.begin() + static_cast<std::ptrdiff_t>(
                                           random() % (before.size() + 1)),
                      StageShare());
      } else {
        const size_t worker = random() % before.size();
        lost = before[worker];
        before.erase(before.begin() + static_cast<std::ptrdiff_t>(worker));
      }
      const bool had_spare =
          std::any_of(before.begin(), before.end(),
                      [](const StageShare& share) { return share.spare(); });
      const Shares after = assignment.Place(before);
      SCOPED_TRACE(absl::StrCat(joins ? "join: " : "loss: ", Print(before),
                                " -> ", Print(after)));
      Check(assignment, after);
      const bool fewer = ReplicasOf(after).size() < ReplicasOf(shares).size();
      std::set<int> hit;
      std::map<int, int> changed;
      for (size_t i = 0; i < before.size(); ++i) {
        if (before[i].spare() || before[i] == after[i]) continue;
        hit.insert(before[i].replica);
        ++changed[before[i].replica];
      }
      if (joins) {
        EXPECT_LE(hit.size(), 1) << "a new worker joins one replica";
      } else if (had_spare && !lost.spare()) {
        EXPECT_THAT(hit, IsEmpty());
      } else if (!fewer) {
        for (const int replica : hit) EXPECT_EQ(replica, lost.replica);
      }
      if (lost.stages.size() == 1 && !fewer && stages <= 3) {
        EXPECT_LE(changed[lost.replica], 2);
      }
      shares = after;
      if (::testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tributary
