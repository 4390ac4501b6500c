#include "server/membership.h"

#include <set>

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

TEST(Membership, DealsEveryLeafOnceInContiguousRunsThatDifferByOneAtMost) {
  for (int leaves = 1; leaves <= 16; leaves *= 2) {
    Membership membership(leaves, absl::Seconds(10));
    for (int workers = 1; workers <= 20; ++workers) {
      Add(&membership);
      const auto deals = membership.DealWork(/*pieces=*/7);
      ASSERT_EQ(deals.size(), workers);
      int next = 0;
      int64_t next_piece = 0;
      int shortest = leaves;
      int longest = 0;
      for (const auto& [incarnation, deal] : deals) {
        const int length = deal.leaf_end() - deal.leaf_begin();
        EXPECT_EQ(deal.piece_begin(), next_piece);
        next_piece = deal.piece_end();
        if (length == 0) continue;
        EXPECT_EQ(deal.leaf_begin(), next);
        next = deal.leaf_end();
        shortest = std::min(shortest, length);
        longest = std::max(longest, length);
      }
      EXPECT_EQ(next, leaves);
      EXPECT_EQ(next_piece, 7);
      EXPECT_LE(longest - shortest, 1);
    }
  }
}

TEST(Membership, DealsOnlyToSyncedMembers) {
  Membership membership(4, absl::Seconds(10));
  const int64_t first = Add(&membership);
  const int64_t second = Add(&membership);
  membership.Find(second)->synced = false;
  const auto deals = membership.DealWork(/*pieces=*/0);
  ASSERT_EQ(deals.size(), 1);
  EXPECT_EQ(deals.at(first).leaf_end(), 4);
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
  EXPECT_EQ(admitted.fenced, old);
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
