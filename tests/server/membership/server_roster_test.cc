#include "server/membership/server_roster.h"

#include "gtest/gtest.h"

namespace tributary {
namespace {

class CountingLink final : public ServerLink {
 public:
  void Send(const ServerOrder&) override { ++sent; }
  void Close(const absl::Status&) override {}
  int sent = 0;
};

Enlist OfShard(int shard) {
  Enlist enlist;
  enlist.set_shard(shard);
  return enlist;
}

TEST(ServerRosterTest, RefusesASecondServerOfAShard) {
  ServerRoster roster(2);
  CountingLink first, second;
  EXPECT_TRUE(roster.Add(OfShard(1), &first, absl::Now()).ok());
  EXPECT_TRUE(
      absl::IsAlreadyExists(roster.Add(OfShard(1), &second, absl::Now())));
  EXPECT_TRUE(
      absl::IsInvalidArgument(roster.Add(OfShard(2), &second, absl::Now())));
}

// The link does not outlive Remove.
TEST(ServerRosterTest, ForgetsTheLinkOfAServerThatIsLostTwice) {
  ServerRoster roster(2);
  CountingLink first, second;
  ASSERT_TRUE(roster.Add(OfShard(1), &first, absl::Now()).ok());
  EXPECT_TRUE(roster.Remove(1));
  ASSERT_TRUE(roster.Add(OfShard(1), &second, absl::Now()).ok());
  EXPECT_FALSE(roster.Remove(1));
  EXPECT_TRUE(roster.none_there());
  roster.Send(ServerOrder());
  EXPECT_EQ(first.sent + second.sent, 0);
}

TEST(ServerRosterTest, ComparesTheVersionsOfAllServers) {
  ServerRoster roster(2);
  roster.SetVersion(0, 9);
  EXPECT_FALSE(roster.all_have(9));
  roster.SetVersion(1, 8);
  EXPECT_FALSE(roster.all_have(9));
  EXPECT_TRUE(roster.all_have(8));
  roster.SetVersion(1, 9);
  EXPECT_TRUE(roster.all_have(9));
}

}  // namespace
}  // namespace tributary
