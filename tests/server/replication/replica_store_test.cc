#include "server/replication/replica_store.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// Three chunks of 16 elements, of which server 0 of two has the first and the
// last.
ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(16);
  for (const char* name : {"a", "b", "c"}) {
    auto* parameter = table.add_parameter();
    parameter->set_name(name);
    parameter->add_shape(16);
    parameter->set_group(DECAY);
  }
  return *ArenaLayout::Create(table);
}

JournalScope Scope(const std::string& job = "job") {
  JournalScope scope;
  scope.set_job_id(job);
  scope.set_signature(Layout().signature());
  scope.set_servers(2);
  return scope;
}

Snapshot::Chunk Copy(int chunk, float value) {
  BufferPool pool(16);
  Snapshot::Chunk copy;
  copy.number = chunk;
  copy.elements = 16;
  copy.values = pool.Take();
  copy.values.get()[0] = value;
  return copy;
}

class ReplicaStoreTest : public testing::Test {
 protected:
  ReplicaStoreTest() { replicas_.Begin(Scope(), Layout(), /*arrays=*/1); }

  void Add(int shard, int chunk, int64_t version) {
    EXPECT_TRUE(
        replicas_.Add(shard, version, Copy(chunk, static_cast<float>(version)))
            .ok());
  }
  // "shard at version", of whole shards.
  std::vector<std::string> Whole() const {
    std::vector<std::string> all;
    const auto holdings = replicas_.Holdings();
    if (!holdings.has_value()) return all;
    for (const auto& whole : holdings->whole()) {
      all.push_back(std::to_string(whole.shard()) + " at " +
                    std::to_string(whole.version()));
    }
    return all;
  }

  ReplicaStore replicas_;
};

TEST_F(ReplicaStoreTest, HasWhatAllChunksOfAShardHave) {
  EXPECT_FALSE(replicas_.Holdings().has_value());
  Add(0, 0, 4);
  EXPECT_TRUE(Whole().empty());
  Add(0, 2, 4);
  EXPECT_EQ(Whole(), (std::vector<std::string>{"0 at 4"}));
  Add(0, 0, 5);
  EXPECT_EQ(Whole(), (std::vector<std::string>{"0 at 4"}));
  Add(1, 1, 5);
  Add(0, 2, 5);
  EXPECT_EQ(Whole(), (std::vector<std::string>{"0 at 4", "0 at 5", "1 at 5"}));
}

TEST_F(ReplicaStoreTest, KeepsTwoVersionsOfEachChunk) {
  for (int64_t version = 1; version <= 5; ++version) {
    Add(0, 0, version);
    Add(0, 2, version);
  }
  Add(0, 2, 6);
  EXPECT_EQ(Whole(), (std::vector<std::string>{"0 at 5"}));
  const absl::StatusOr<Snapshot> found = replicas_.Find(0, 5);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->chunks.size(), 2u);
  EXPECT_EQ(found->chunks[1].number, 2);
  EXPECT_EQ(found->chunks[1].values.get()[0], 5);
  EXPECT_TRUE(absl::IsNotFound(replicas_.Find(0, 4).status()));
  EXPECT_TRUE(absl::IsNotFound(replicas_.Find(0, 6).status()));
  EXPECT_TRUE(absl::IsNotFound(replicas_.Find(1, 5).status()));
}

TEST_F(ReplicaStoreTest, ForgetsAnotherJob) {
  Add(1, 1, 3);
  replicas_.Begin(Scope(), Layout(), /*arrays=*/1);
  EXPECT_EQ(Whole(), (std::vector<std::string>{"1 at 3"}));
  EXPECT_TRUE(replicas_.CheckScope(Scope()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(replicas_.CheckScope(Scope("other"))));
  replicas_.Begin(Scope("other"), Layout(), /*arrays=*/1);
  EXPECT_FALSE(replicas_.Holdings().has_value());
  EXPECT_TRUE(absl::IsUnavailable(ReplicaStore().CheckScope(Scope())));
}

// Else one of them would stay for ever, and push out honest ones.
TEST_F(ReplicaStoreTest, RefusesAVersionThatDoesNotFollow) {
  Add(0, 0, 4);
  EXPECT_TRUE(absl::IsInvalidArgument(replicas_.Add(0, 6, Copy(0, 0))));
  EXPECT_TRUE(absl::IsInvalidArgument(replicas_.Add(0, 3, Copy(0, 0))));
  EXPECT_TRUE(absl::IsInvalidArgument(replicas_.Add(0, INT64_MAX, Copy(0, 0))));
  EXPECT_TRUE(replicas_.Add(0, 4, Copy(0, 0)).ok());
  EXPECT_TRUE(replicas_.Add(0, 5, Copy(0, 0)).ok());
}

TEST_F(ReplicaStoreTest, MayLeaveVersionsOut) {
  replicas_.Begin(Scope(), Layout(), /*arrays=*/1, /*every_version=*/false);
  ASSERT_TRUE(replicas_.Add(0, 3, Copy(0, 0)).ok());
  EXPECT_TRUE(replicas_.Add(0, 500, Copy(0, 0)).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(replicas_.Add(0, 400, Copy(0, 0))));
}

TEST_F(ReplicaStoreTest, ForgetsWhatAnAttemptDoesNotBeginWith) {
  for (const int64_t version : {4, 5}) {
    Add(0, 0, version);
    Add(0, 2, version);
    replicas_.AddJobState(version, JobState());
  }
  replicas_.KeepOnly(4);
  EXPECT_EQ(Whole(), (std::vector<std::string>{"0 at 4"}));
  EXPECT_EQ(replicas_.Holdings()->state_size(), 1);
  replicas_.KeepOnly(std::nullopt);
  EXPECT_FALSE(replicas_.Holdings().has_value());
}

TEST_F(ReplicaStoreTest, RefusesWhatIsNotTheShards) {
  EXPECT_TRUE(absl::IsInvalidArgument(replicas_.Add(0, 1, Copy(1, 0))));
  EXPECT_TRUE(absl::IsInvalidArgument(replicas_.Add(2, 1, Copy(0, 0))));
  EXPECT_TRUE(absl::IsInvalidArgument(replicas_.Add(-1, 1, Copy(0, 0))));
  EXPECT_FALSE(replicas_.Holdings().has_value());
}

JournalHoldings Held(std::vector<std::pair<int, int64_t>> whole,
                     std::vector<int64_t> states) {
  JournalHoldings holdings;
  *holdings.mutable_scope() = Scope();
  for (const auto& [shard, version] : whole) {
    holdings.add_whole()->set_shard(shard);
    holdings.mutable_whole()->rbegin()->set_version(version);
  }
  for (const int64_t version : states) {
    holdings.add_state()->set_version(version);
    holdings.mutable_state()->rbegin()->mutable_job_state()->set_samples(
        10 * version);
  }
  return holdings;
}

TEST(NewestInMemoryTest, IsTheNewestThatAllShardsHaveSomewhere) {
  // Server 1 is new.
  std::optional<ReplicaPoint> point = NewestInMemory(
      {Held({{0, 6}, {0, 7}, {1, 6}, {1, 7}}, {6, 7}), std::nullopt}, Scope(),
      Layout(), /*tables=*/false);
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->version, 7);
  EXPECT_EQ(point->job_state.samples(), 70);
  EXPECT_EQ(point->holders, (std::vector<int>{0, 0}));
  // Server 0 keeps what server 1 sends, and the other way round.
  EXPECT_EQ(point->stored, (std::vector<bool>{false, true}));
  // Its own is nearer.
  point = NewestInMemory(
      {Held({{0, 6}, {1, 6}}, {6, 7}), Held({{1, 6}, {1, 7}}, {7})}, Scope(),
      Layout(), /*tables=*/false);
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->version, 6);
  EXPECT_EQ(point->holders, (std::vector<int>{0, 1}));
}

TEST(NewestInMemoryTest, IsNoneWhereSomethingIsMissing) {
  const JournalHoldings whole = Held({{0, 6}, {1, 6}}, {6});
  EXPECT_TRUE(
      NewestInMemory({whole, std::nullopt}, Scope(), Layout(), /*tables=*/false)
          .has_value());
  EXPECT_FALSE(
      NewestInMemory({whole, whole}, Scope("other"), Layout(), /*tables=*/false)
          .has_value());
  EXPECT_FALSE(NewestInMemory({Held({{0, 6}}, {6}), std::nullopt}, Scope(),
                              Layout(), /*tables=*/false)
                   .has_value());
  EXPECT_FALSE(NewestInMemory({Held({{0, 6}, {1, 5}}, {5, 6}), std::nullopt},
                              Scope(), Layout(), /*tables=*/false)
                   .has_value());
  EXPECT_FALSE(NewestInMemory({Held({{0, 6}, {1, 6}}, {5}), std::nullopt},
                              Scope(), Layout(), /*tables=*/false)
                   .has_value());
  EXPECT_FALSE(NewestInMemory({std::nullopt, std::nullopt}, Scope(), Layout(),
                              /*tables=*/false));
  // What no honest server says.
  EXPECT_FALSE(
      NewestInMemory({Held({{0, 6}, {7, 6}, {-1, 6}}, {6}), std::nullopt},
                     Scope(), Layout(), /*tables=*/false)
          .has_value());
}

TEST(NewestInMemoryTest, NeedsNothingOfAServerWithoutChunks) {
  JournalScope scope = Scope();
  scope.set_servers(4);
  const auto held = [&](int shard) {
    JournalHoldings holdings = Held({{shard, 6}}, {6});
    *holdings.mutable_scope() = scope;
    return holdings;
  };
  const std::optional<ReplicaPoint> point =
      NewestInMemory({held(0), held(1), held(2), std::nullopt}, scope, Layout(),
                     /*tables=*/false);
  ASSERT_TRUE(point.has_value());
  EXPECT_EQ(point->holders, (std::vector<int>{0, 1, 2, 3}));
  // With tables, it has a part of these.
  EXPECT_FALSE(NewestInMemory({held(0), held(1), held(2), std::nullopt}, scope,
                              Layout(), /*tables=*/true)
                   .has_value());
  ReplicaStore replicas;
  replicas.Begin(scope, Layout(), /*arrays=*/1);
  const absl::StatusOr<Snapshot> empty = replicas.Find(3, 6);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_TRUE(empty->chunks.empty());
}

}  // namespace
}  // namespace tributary
