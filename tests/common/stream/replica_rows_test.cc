#include "common/stream/replica_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/sparse/key_hash.h"

namespace tributary {
namespace {

constexpr int kServers = 2;

JobSpec Job() {
  JobSpec job;
  job.set_seed(3);
  job.mutable_recovery()->set_journal(true);
  SparseSpec* const sparse = job.mutable_sparse();
  sparse->set_fixed_lag(1);
  SparseTableSpec* const users = sparse->add_table();
  users->set_name("users");
  users->set_dim(3);
  users->set_buckets(4);
  users->mutable_adam()->set_learning_rate(0.1);
  users->mutable_admission()->set_min_count(2);
  users->mutable_expiry()->set_unused_steps(3);
  SparseTableSpec* const items = sparse->add_table();
  items->set_name("items");
  items->set_dim(2);
  items->set_buckets(6);
  items->mutable_row_wise_adagrad()->set_learning_rate(0.1);
  return job;
}

ServerTables MakeTables(int64_t version = 0, int shard = 1) {
  return MakeServerTables(Job(), shard, kServers, version).value();
}

// Keys of server 1, ascending.
std::vector<uint64_t> Keys(const SparseTable& table, uint64_t from,
                           uint64_t to) {
  std::vector<uint64_t> keys;
  for (uint64_t key = from; key < to; ++key) {
    if (table.CheckKeys({&key, 1}).ok()) keys.push_back(key);
  }
  return keys;
}

std::vector<BucketRows> Step(const ServerTables& tables, int64_t step,
                             uint64_t keys = 40) {
  std::vector<BucketRows> changes;
  for (const auto& table : tables) {
    auto sum = std::make_shared<RowGradients>();
    sum->keys = Keys(*table, 7 * step, 7 * step + keys);
    const int64_t elements = sum->rows() * table->dim();
    sum->values = AllocateBuffer(elements);
    std::fill_n(sum->values.get(), elements, 0.5f + static_cast<float>(step));
    EXPECT_TRUE(table->Apply(sum, RowsUpdate()).ok());
    changes.push_back(table->LastStep().value());
  }
  return changes;
}

ReceivedPayload ReceivedOf(const OutgoingPayload& payload) {
  return ReceivedPayload(payload.data, payload.bytes, payload.owner);
}

absl::Status TakeAll(const std::vector<ReplicaRows>& parts,
                     ReplicaRowsReader* reader) {
  for (const ReplicaRows& part : parts) {
    const absl::Status taken =
        reader->Take(part.rows, ReceivedOf(part.payload));
    if (!taken.ok()) return taken;
  }
  return absl::OkStatus();
}

std::vector<ReplicaRows> PackWhole(const ServerTables& tables) {
  WholeTables whole(tables, tables[0]->version(), /*earlier_steps=*/1);
  std::vector<ReplicaRows> all;
  while (true) {
    std::vector<ReplicaRows> parts = whole.Next().value();
    if (parts.empty()) return all;
    for (ReplicaRows& part : parts) all.push_back(std::move(part));
  }
}

void ExpectEqual(const ServerTables& tables, const ServerTables& expected,
                 int versions) {
  for (size_t number = 0; number < tables.size(); ++number) {
    const SparseTable& table = *tables[number];
    const SparseTable& wanted = *expected[number];
    ASSERT_EQ(table.version(), wanted.version());
    for (const int bucket : wanted.buckets()) {
      const BucketRows a = table.ReadBucket(bucket).value();
      const BucketRows b = wanted.ReadBucket(bucket).value();
      EXPECT_EQ(a.keys, b.keys);
      EXPECT_EQ(a.last_steps, b.last_steps);
      EXPECT_EQ(a.values, b.values);
      ASSERT_EQ(a.candidates.size(), b.candidates.size());
      for (size_t i = 0; i < a.candidates.size(); ++i) {
        EXPECT_EQ(a.candidates[i].key, b.candidates[i].key);
        EXPECT_EQ(a.candidates[i].steps, b.candidates[i].steps);
        EXPECT_EQ(a.candidates[i].last_step, b.candidates[i].last_step);
      }
    }
    const std::vector<uint64_t> keys = Keys(wanted, 0, 200);
    std::vector<float> a(keys.size() * wanted.dim());
    std::vector<float> b(a.size());
    for (int age = 0; age < versions; ++age) {
      const int64_t version = wanted.version() - age;
      ASSERT_TRUE(table.Read(version, keys, a.data()).ok()) << age;
      ASSERT_TRUE(wanted.Read(version, keys, b.data()).ok());
      EXPECT_EQ(a, b) << age;
    }
  }
}

TEST(ReplicaRowsTest, ChangesOfEachStepMakeACopy) {
  const ServerTables tables = MakeTables();
  ReplicaRowsReader reader(MakeTables());
  for (int64_t step = 0; step < 12; ++step) {
    const std::vector<BucketRows> changes = Step(tables, step);
    const auto parts = PackStepRows(step + 1, tables, changes);
    ASSERT_TRUE(TakeAll(parts, &reader).ok());
    EXPECT_TRUE(reader.complete());
    ExpectEqual(reader.tables(), tables, /*versions=*/step == 0 ? 2 : 3);
  }
  // Rows have expired, and keys wait for admission.
  EXPECT_LT(tables[0]->size().rows, tables[1]->size().rows);
}

TEST(ReplicaRowsTest, ManyRowsComeInSeveralMessagesAndChangeNothingBefore) {
  const ServerTables tables = MakeTables();
  ReplicaRowsReader reader(MakeTables());
  const std::vector<BucketRows> changes = Step(tables, 0, /*keys=*/200000);
  const auto parts = PackStepRows(1, tables, changes);
  ASSERT_GT(parts.size(), 4);
  for (const ReplicaRows& part : parts) {
    EXPECT_EQ(reader.tables()[0]->version(), 0);
    EXPECT_LE(part.payload.bytes, 1 << 20);
    ASSERT_TRUE(reader.Take(part.rows, ReceivedOf(part.payload)).ok());
    EXPECT_EQ(reader.complete(), part.rows.last());
  }
  ExpectEqual(reader.tables(), tables, /*versions=*/2);
}

TEST(ReplicaRowsTest, WholeTablesMakeACopyThatTakesFurtherSteps) {
  const ServerTables tables = MakeTables();
  for (int64_t step = 0; step < 5; ++step) (void)Step(tables, step, 3000);
  ReplicaRowsReader reader(MakeTables(/*version=*/5));
  ASSERT_TRUE(TakeAll(PackWhole(tables), &reader).ok());
  EXPECT_TRUE(reader.complete());
  ExpectEqual(reader.tables(), tables, /*versions=*/2);
  const std::vector<BucketRows> changes = Step(tables, 5);
  ASSERT_TRUE(TakeAll(PackStepRows(6, tables, changes), &reader).ok());
  ExpectEqual(reader.tables(), tables, /*versions=*/3);
}

TEST(ReplicaRowsTest, EmptyTablesAreOneMessage) {
  const ServerTables tables = MakeTables();
  const std::vector<ReplicaRows> parts = PackWhole(tables);
  ASSERT_EQ(parts.size(), 1);
  EXPECT_TRUE(parts[0].rows.last());
}

// A message of a step, with a payload that may be changed.
struct Message {
  JournalRows rows;
  std::string payload;
};

Message FirstMessage(const ServerTables& tables) {
  const auto parts = PackStepRows(1, tables, Step(tables, 0));
  const ReplicaRows& part = parts[1];  // Of table 1, with rows only.
  return {part.rows, std::string(static_cast<const char*>(part.payload.data),
                                 part.payload.bytes)};
}

TEST(ReplicaRowsTest, RefusesMalformedMessagesByName) {
  const ServerTables tables = MakeTables();
  const Message good = FirstMessage(tables);
  ASSERT_GT(good.rows.rows(), 3);
  const auto swap_keys = [](Message* message) {
    std::swap_ranges(&message->payload[0], &message->payload[8],
                     &message->payload[8]);
  };
  const auto double_key = [](Message* message) {
    std::copy_n(&message->payload[0], 8, &message->payload[8]);
  };
  const auto other_key = [](Message* message) {
    uint64_t key = 0;
    while (MakeTables()[1]->CheckKeys({&key, 1}).ok()) ++key;
    std::copy_n(reinterpret_cast<const char*>(&key), 8, &message->payload[0]);
  };
  const struct {
    std::function<void(Message*)> change;
    const char* named;
  } cases[] = {
      {[](Message* m) { m->rows.set_table(2); }, "table 2"},
      {[](Message* m) { m->rows.set_table(-1); }, "table -1"},
      {[](Message* m) { m->rows.set_rows(-1); }, "-1 keys"},
      {[](Message* m) { m->rows.set_removed(int64_t{1} << 62); }, "keys in"},
      {[](Message* m) { m->payload.pop_back(); }, "bytes, expected"},
      {[](Message* m) { m->rows.set_candidates(1); }, "bytes, expected"},
      {[](Message* m) { m->rows.set_age(1); }, "age"},
      {swap_keys, "not ascending"},
      {double_key, "not ascending"},
      {other_key, "belongs to server 0"},
  };
  for (const auto& one : cases) {
    Message bad = good;
    one.change(&bad);
    ReplicaRowsReader reader(MakeTables());
    const absl::Status taken = reader.Take(
        bad.rows,
        ReceivedPayload(bad.payload.data(), bad.payload.size(), nullptr));
    EXPECT_EQ(taken.code(), absl::StatusCode::kInvalidArgument) << one.named;
    EXPECT_NE(taken.message().find(one.named), std::string::npos) << taken;
  }
  // A step too early, and whole tables of another version.
  for (const bool whole : {false, true}) {
    Message bad = good;
    bad.rows.set_version(2);
    bad.rows.set_whole(whole);
    ReplicaRowsReader reader(MakeTables());
    EXPECT_EQ(reader
                  .Take(bad.rows, ReceivedPayload(bad.payload.data(),
                                                  bad.payload.size(), nullptr))
                  .code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

TEST(ReplicaRowsTest, RefusesEarlierValuesOfAgesThatDoNotFollow) {
  for (const int32_t age : {-1, 2, 3}) {
    JournalRows rows;
    rows.set_whole(true);
    rows.set_age(age);
    ReplicaRowsReader reader(MakeTables());
    EXPECT_EQ(reader.Take(rows, ReceivedPayload("", 0, nullptr)).code(),
              absl::StatusCode::kInvalidArgument)
        << age;
  }
}

TEST(ReplicaRowsTest, RefusesAKeyThatAStepChangesTwice) {
  const ServerTables tables = MakeTables();
  Message message = FirstMessage(tables);
  message.rows.set_last(false);
  const ReceivedPayload payload(message.payload.data(), message.payload.size(),
                                nullptr);
  ReplicaRowsReader reader(MakeTables());
  ASSERT_TRUE(reader.Take(message.rows, payload).ok());
  message.rows.set_last(true);
  EXPECT_EQ(reader.Take(message.rows, payload).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReplicaRowsTest, RefusesWholeTablesBetweenTheChangesOfAStep) {
  const ServerTables tables = MakeTables();
  Message message = FirstMessage(tables);
  message.rows.set_last(false);
  const ReceivedPayload payload(message.payload.data(), message.payload.size(),
                                nullptr);
  ReplicaRowsReader reader(MakeTables());
  ASSERT_TRUE(reader.Take(message.rows, payload).ok());
  message.rows.set_whole(true);
  message.rows.set_version(0);
  EXPECT_EQ(reader.Take(message.rows, payload).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
