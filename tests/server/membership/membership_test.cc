#include "server/membership/membership.h"

#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

const absl::Time kStart = absl::UnixEpoch();

int64_t Add(Membership* membership, int rank = -1, absl::Time now = kStart) {
  Join join;
  join.set_rank(rank);
  join.set_host("alpha");
  join.set_pid(100);
  const Membership::Admitted admitted = membership->Add(join, now);
  membership->Find(admitted.incarnation)->synced = true;
  return admitted.incarnation;
}

TEST(Membership,
     AssignsEveryMicroBatchOnceInContiguousRunsThatDifferByOneAtMost) {
  for (int micro_batches = 1; micro_batches <= 16; micro_batches *= 2) {
    Membership membership(micro_batches, absl::Seconds(10));
    for (int workers = 1; workers <= 20; ++workers) {
      Add(&membership);
      const auto assignments = membership.AssignWork(/*pieces=*/7, kStart);
      ASSERT_EQ(assignments.size(), workers);
      int next = 0;
      int64_t next_piece = 0;
      int shortest = micro_batches;
      int longest = 0;
      for (const auto& [incarnation, assignment] : assignments) {
        const int length = assignment.leaf_end() - assignment.leaf_begin();
        EXPECT_EQ(assignment.piece_begin(), next_piece);
        next_piece = assignment.piece_end();
        if (length == 0) continue;
        EXPECT_EQ(assignment.leaf_begin(), next);
        next = assignment.leaf_end();
        shortest = std::min(shortest, length);
        longest = std::max(longest, length);
      }
      EXPECT_EQ(next, micro_batches);
      EXPECT_EQ(next_piece, 7);
      EXPECT_LE(longest - shortest, 1);
    }
  }
}

TEST(Membership, AssignsOnlyToSyncedMembers) {
  Membership membership(4, absl::Seconds(10));
  const int64_t first = Add(&membership);
  const int64_t second = Add(&membership);
  membership.Find(second)->synced = false;
  const auto assignments = membership.AssignWork(/*pieces=*/0, kStart);
  ASSERT_EQ(assignments.size(), 1);
  EXPECT_EQ(assignments.at(first).leaf_end(), 4);
}

// As many heartbeats as are needed, between which micro-batches took so long,
// and the exchange of a step.
void Measure(Membership* membership, int64_t incarnation,
             double micro_batch_seconds, double exchange_seconds = 0) {
  Member* member = membership->Find(incarnation);
  for (int i = 0; i < 5; ++i) {
    Heartbeat heartbeat = member->heartbeat;
    ProcessStatistics* statistics = heartbeat.mutable_statistics();
    statistics->set_leaves(statistics->leaves() + 10);
    statistics->set_leaf_seconds(statistics->leaf_seconds() +
                                 10 * micro_batch_seconds);
    statistics->set_steps(statistics->steps() + 1);
    statistics->set_exchange_seconds(statistics->exchange_seconds() +
                                     exchange_seconds);
    membership->AddHeartbeat(member, heartbeat, /*waiting_seconds=*/0, kStart);
  }
}

TEST(Membership, AssignsByMeasuredSpeedInTheOrderOfRanks) {
  Membership membership(8, absl::Seconds(10));
  const int64_t fast = Add(&membership, /*rank=*/1);
  const int64_t slow = Add(&membership, /*rank=*/0);
  membership.AssignWork(/*pieces=*/4, kStart);
  Measure(&membership, slow, 0.3);
  EXPECT_FALSE(
      membership.AssignmentIsSlow(kStart));  // The other is not measured.
  Measure(&membership, fast, 0.1);
  ASSERT_TRUE(membership.AssignmentIsSlow(kStart));
  auto assignments = membership.AssignWork(/*pieces=*/4, kStart);
  EXPECT_EQ(assignments.at(slow).leaf_begin(), 0);
  EXPECT_EQ(assignments.at(slow).leaf_end(), 2);
  EXPECT_EQ(assignments.at(fast).leaf_begin(), 2);
  EXPECT_EQ(assignments.at(fast).leaf_end(), 8);
  EXPECT_EQ(assignments.at(slow).piece_end(), 1);
  EXPECT_EQ(assignments.at(fast).piece_begin(), 1);
  EXPECT_EQ(assignments.at(fast).piece_end(), 4);
  // Nothing to gain, nor before it is measured anew.
  EXPECT_FALSE(membership.AssignmentIsSlow(kStart));
  Measure(&membership, slow, 0.1);
  EXPECT_FALSE(membership.AssignmentIsSlow(kStart));
  Measure(&membership, fast, 0.1);
  ASSERT_TRUE(membership.AssignmentIsSlow(kStart));
  assignments = membership.AssignWork(/*pieces=*/4, kStart);
  EXPECT_EQ(assignments.at(slow).leaf_end(), 4);
}

TEST(Membership, OfManyMembersNotEveryHeartbeatLeadsToALook) {
  constexpr int kMembers = 4 * Membership::kLooksPerRound;
  Membership membership(kMembers * 2, absl::Seconds(10));
  std::vector<int64_t> members;
  for (int i = 0; i < kMembers; ++i) members.push_back(Add(&membership));
  membership.AssignWork(/*pieces=*/0, kStart);
  for (const int64_t member : members) {
    Measure(&membership, member, member == members[0] ? 1.0 : 0.1);
  }
  // One heartbeat of each member finds the slow one several times.
  int looks = 0;
  for (const int64_t incarnation : members) {
    Member* const member = membership.Find(incarnation);
    membership.AddHeartbeat(member, Heartbeat(member->heartbeat),
                            /*waiting_seconds=*/0, kStart);
    if (membership.AssignmentIsSlow(kStart)) ++looks;
  }
  EXPECT_EQ(looks, Membership::kLooksPerRound);
}

TEST(Membership, MoreContributionsMustBeWorthTheirTransfer) {
  Membership membership(16, absl::Seconds(10));
  const int64_t slow = Add(&membership);
  const int64_t fast = Add(&membership);
  membership.AssignWork(/*pieces=*/0, kStart);
  const auto measure = [&](double exchange_seconds) {
    Measure(&membership, slow, 0.2, exchange_seconds);
    Measure(&membership, fast, 0.1, exchange_seconds);
  };
  measure(/*exchange_seconds=*/0);
  ASSERT_TRUE(membership.AssignmentIsSlow(kStart));
  // The least computing, but two and three contributions in place of one each.
  auto assignments = membership.AssignWork(/*pieces=*/0, kStart);
  EXPECT_EQ(assignments.at(slow).leaf_end(), 5);
  measure(/*exchange_seconds=*/2);
  ASSERT_TRUE(membership.AssignmentIsSlow(kStart));
  assignments = membership.AssignWork(/*pieces=*/0, kStart);
  EXPECT_EQ(assignments.at(slow).leaf_end(), 8);
  // That computing hides the exchange now is what this assignment is for; but
  // it need not stay so forever.
  measure(/*exchange_seconds=*/0);
  EXPECT_FALSE(membership.AssignmentIsSlow(kStart));
  EXPECT_TRUE(
      membership.AssignmentIsSlow(kStart + 2.5 * WorkerSpeed::kHalfLife));
}

TEST(Membership, TakesNewMembersToBeLikeTheOthers) {
  Membership membership(8, absl::Seconds(10));
  const int64_t first = Add(&membership);
  membership.AssignWork(/*pieces=*/0, kStart);
  Measure(&membership, first, 100);
  const int64_t second = Add(&membership);
  const auto assignments = membership.AssignWork(/*pieces=*/0, kStart);
  EXPECT_EQ(assignments.at(first).leaf_end(), 4);
  EXPECT_EQ(assignments.at(second).leaf_end(), 8);
}

TEST(Membership, ASpareTakesThePlaceOfASlowMember) {
  Membership membership(2, absl::Seconds(10));
  const int64_t slow = Add(&membership);
  const int64_t fast = Add(&membership);
  const int64_t spare = Add(&membership);
  membership.AssignWork(/*pieces=*/0, kStart);
  Measure(&membership, slow, 1);
  Measure(&membership, fast, 0.1);
  // Two micro-batches of the fast one take less than one of the slow one.
  ASSERT_TRUE(membership.AssignmentIsSlow(kStart));
  auto assignments = membership.AssignWork(/*pieces=*/0, kStart);
  EXPECT_EQ(assignments.at(slow).leaf_end() - assignments.at(slow).leaf_begin(),
            0);
  EXPECT_EQ(assignments.at(fast).leaf_end() + assignments.at(spare).leaf_end() -
                assignments.at(fast).leaf_begin() -
                assignments.at(spare).leaf_begin(),
            2);
}

TEST(Membership, TheStragglerIsWhoWorksWhileOthersWait) {
  Membership membership(4, absl::Seconds(10));
  std::vector<int64_t> all;
  for (int i = 0; i < 5; ++i) all.push_back(Add(&membership));
  membership.AssignWork(/*pieces=*/0, kStart);  // The last one is a spare.
  const auto say = [&](int i, int64_t step, const std::string& phase) {
    Heartbeat* heartbeat = &membership.Find(all[i])->heartbeat;
    heartbeat->set_step(step);
    heartbeat->set_phase(phase);
  };
  for (int i = 0; i < 4; ++i) say(i, 7, "forward");
  EXPECT_EQ(membership.Straggler(7), nullptr);
  for (int i = 0; i < 4; ++i) say(i, 7, "exchange");
  EXPECT_EQ(membership.Straggler(7), nullptr);
  say(3, 7, "backward");
  EXPECT_EQ(membership.Straggler(7), membership.Find(all[3]));
  // Has not begun the step.
  say(2, 6, "exchange");
  EXPECT_EQ(membership.Straggler(7), membership.Find(all[2]));
}

TEST(Membership, GivesTheLowestFreeRank) {
  Membership membership(4, absl::Seconds(10));
  Add(&membership);
  const int64_t second = Add(&membership);
  Add(&membership);
  membership.Remove(second);
  EXPECT_EQ(membership.Find(Add(&membership))->rank, 1);
}

TEST(Membership, NewerProcessWithTheSameRankFencesTheOlder) {
  Membership membership(4, absl::Seconds(10));
  const int64_t old = Add(&membership, /*rank=*/2);
  Join join;
  join.set_rank(2);
  const Membership::Admitted admitted = membership.Add(join, kStart);
  ASSERT_TRUE(admitted.fenced.has_value());
  EXPECT_EQ(admitted.fenced->incarnation, old);
  EXPECT_GT(admitted.incarnation, old);
  EXPECT_EQ(membership.Find(old), nullptr);
}

TEST(Membership, LeaseEndsAfterSilence) {
  Membership membership(4, absl::Seconds(10));
  const int64_t silent = Add(&membership);
  const int64_t alive = Add(&membership);
  membership.Find(alive)->last_heard = kStart + absl::Seconds(5);
  EXPECT_TRUE(membership.Expired(kStart + absl::Seconds(10)).empty());
  EXPECT_EQ(membership.Expired(kStart + absl::Seconds(11)),
            std::vector<int64_t>{silent});
}

}  // namespace
}  // namespace tributary
