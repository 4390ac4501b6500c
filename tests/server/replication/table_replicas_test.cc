#include "server/replication/table_replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "server/replication/replica_store.h"

namespace tributary {
namespace {

JobSpec Job() {
  JobSpec job;
  job.mutable_recovery()->set_journal(true);
  for (const char* name : {"users", "items"}) {
    SparseTableSpec* const table = job.mutable_sparse()->add_table();
    table->set_name(name);
    table->set_dim(2);
    table->set_buckets(4);
    table->mutable_adam()->set_learning_rate(0.1);
  }
  return job;
}

// Tables of one of two servers, as its engine has them.
class Source {
 public:
  explicit Source(int shard) : tables_(*MakeServerTables(Job(), shard, 2, 0)) {}

  const ServerTables& tables() const { return tables_; }
  int64_t version() const { return tables_[0]->version(); }
  // Applies a step, and returns its messages.
  std::vector<ReplicaRows> Step() {
    std::vector<BucketRows> changes;
    for (const auto& table : tables_) {
      auto sum = std::make_shared<RowGradients>();
      for (uint64_t key = version(); key < 30; ++key) {
        if (table->CheckKeys({&key, 1}).ok()) sum->keys.push_back(key);
      }
      sum->values = AllocateBuffer(2 * sum->rows());
      std::fill_n(sum->values.get(), 2 * sum->rows(), 1.f);
      EXPECT_TRUE(table->Apply(sum, RowsUpdate()).ok());
      changes.push_back(table->LastStep().value());
    }
    return PackStepRows(version(), tables_, changes);
  }

 private:
  const ServerTables tables_;
};

absl::Status Take(const std::vector<ReplicaRows>& parts, int shard,
                  TableReplicas* replicas) {
  for (const ReplicaRows& part : parts) {
    const absl::Status taken =
        replicas->Take(shard, part.rows,
                       ReceivedPayload(part.payload.data, part.payload.bytes,
                                       part.payload.owner));
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

using Versions = std::map<int, std::vector<int64_t>>;

class TableReplicasTest : public testing::Test {
 protected:
  TableReplicasTest() { replicas_.Begin(Job(), /*servers=*/2); }

  TableReplicas replicas_;
};

TEST_F(TableReplicasTest, HasTheNewestVersionAndTheOneBefore) {
  Source source(0);
  for (int64_t version = 1; version < 4; ++version) {
    ASSERT_TRUE(Take(source.Step(), 0, &replicas_).ok());
    EXPECT_EQ(replicas_.Versions(), (Versions{{0, {version - 1, version}}}));
  }
  EXPECT_GT(replicas_.copy_bytes(), 0);
  EXPECT_TRUE(replicas_.Find(0, 3).ok());
  EXPECT_TRUE(absl::IsNotFound(replicas_.Find(0, 2).status()));
  replicas_.KeepOnly(2);
  EXPECT_EQ(replicas_.Versions(), (Versions{{0, {2}}}));
  EXPECT_TRUE(replicas_.Find(0, 2).ok());
  // The next attempt continues from there.
  for (const auto& table : source.tables()) {
    ASSERT_TRUE(table->RollBack().ok());
  }
  ASSERT_TRUE(Take(source.Step(), 0, &replicas_).ok());
  const ServerTables copy = replicas_.Find(0, 3).value();
  for (size_t table = 0; table < copy.size(); ++table) {
    for (const int bucket : copy[table]->buckets()) {
      EXPECT_EQ(copy[table]->ReadBucket(bucket)->values,
                source.tables()[table]->ReadBucket(bucket)->values);
    }
  }
  replicas_.KeepOnly(7);
  EXPECT_EQ(replicas_.Versions(), Versions());
}

TEST_F(TableReplicasTest, AStepThatHasNotWhollyArrivedDoesNotCount) {
  Source source(0);
  ASSERT_TRUE(Take(source.Step(), 0, &replicas_).ok());
  std::vector<ReplicaRows> parts = source.Step();
  ASSERT_EQ(parts.size(), 2u);
  parts.pop_back();
  ASSERT_TRUE(Take(parts, 0, &replicas_).ok());
  EXPECT_EQ(replicas_.Versions(), (Versions{{0, {0, 1}}}));
  replicas_.KeepOnly(1);
  for (const auto& table : source.tables()) {
    ASSERT_TRUE(table->RollBack().ok());
  }
  EXPECT_TRUE(Take(source.Step(), 0, &replicas_).ok());
  EXPECT_EQ(replicas_.Versions(), (Versions{{0, {1, 2}}}));
}

TEST_F(TableReplicasTest, OwnTablesAreThoseOfTheEngine) {
  Source source(1);
  replicas_.SetOwn(1, source.tables());
  (void)source.Step();
  EXPECT_EQ(replicas_.Versions(), (Versions{{1, {0, 1}}}));
  EXPECT_EQ(replicas_.copy_bytes(), 0);
  replicas_.KeepOnly(0);
  EXPECT_EQ(source.version(), 0);
  EXPECT_EQ(replicas_.Find(1, 0)->front(), source.tables().front());
  replicas_.KeepOnly(std::nullopt);
  EXPECT_EQ(replicas_.Versions(), Versions());
}

TEST_F(TableReplicasTest, RefusesChangesOfTablesThatItDoesNotHave) {
  Source source(0);
  (void)source.Step();
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(source.Step(), 0, &replicas_)));
  TableReplicas dense;
  dense.Begin(JobSpec(), 2);
  Source other(0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Take(other.Step(), 0, &dense)));
  EXPECT_FALSE(dense.used());
}

TEST_F(TableReplicasTest, TablesWithAMalformedStepAreDiscarded) {
  Source source(0);
  ASSERT_TRUE(Take(source.Step(), 0, &replicas_).ok());
  std::vector<ReplicaRows> parts = source.Step();
  parts[0].rows.set_rows(parts[0].rows.rows() + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Take(parts, 0, &replicas_)));
  EXPECT_EQ(replicas_.Versions(), Versions());
}

// Chunks and tables are in memory together.
TEST(ReplicaStoreOfTablesTest, AVersionIsWholeWithItsTables) {
  ParameterTable table;
  table.set_chunk_elements(16);
  auto* const parameter = table.add_parameter();
  parameter->set_name("a");
  parameter->add_shape(16);
  parameter->set_group(DECAY);
  const ArenaLayout layout = *ArenaLayout::Create(table);
  JournalScope scope;
  scope.set_servers(2);
  ReplicaStore store;
  store.tables().Begin(Job(), 2);
  store.Begin(scope, layout, /*arrays=*/1);
  // The only chunk belongs to shard 0; shard 1 has tables only.
  BufferPool buffers(16);
  for (int64_t version = 1; version < 3; ++version) {
    Snapshot::Chunk chunk;
    chunk.elements = 16;
    chunk.values = buffers.Take();
    ASSERT_TRUE(store.Add(0, version, std::move(chunk)).ok());
  }
  EXPECT_EQ(store.Holdings()->whole_size(), 0);
  Source zero(0);
  Source one(1);
  ASSERT_TRUE(Take(zero.Step(), 0, &store.tables()).ok());
  store.tables().SetOwn(1, one.tables());
  (void)one.Step();
  std::vector<std::vector<int64_t>> whole;
  const JournalHoldings holdings = store.Holdings().value();
  for (const auto& entry : holdings.whole()) {
    whole.push_back({entry.shard(), entry.version()});
  }
  EXPECT_EQ(whole, (std::vector<std::vector<int64_t>>{{0, 1}, {1, 0}, {1, 1}}));
  // A step that the other server has not done is taken back.
  (void)one.Step();
  store.KeepOnly(1);
  whole.clear();
  const JournalHoldings kept = store.Holdings().value();
  for (const auto& entry : kept.whole()) {
    whole.push_back({entry.shard(), entry.version()});
  }
  EXPECT_EQ(whole, (std::vector<std::vector<int64_t>>{{0, 1}, {1, 1}}));
  // Another job.
  scope.set_job_id("other");
  store.Begin(scope, layout, /*arrays=*/1);
  EXPECT_FALSE(store.Holdings().has_value());
}

}  // namespace
}  // namespace tributary
