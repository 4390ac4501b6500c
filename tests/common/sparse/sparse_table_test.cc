#include "common/sparse/sparse_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/sparse/initial_rows.h"
#include "common/sparse/key_hash.h"
#include "tests/common/sparse/reference_table.h"

namespace tributary {
namespace {

constexpr int kDim = 5;
constexpr uint64_t kSeed = 7;

SparseTableSpec Spec() {
  SparseTableSpec spec;
  spec.set_name("ids");
  spec.set_dim(kDim);
  spec.set_buckets(8);
  spec.mutable_adam()->set_learning_rate(0.1);
  return spec;
}

std::unique_ptr<SparseTable> MakeTable(const SparseTableSpec& spec, int shard,
                                       int servers, int versions = 2,
                                       int64_t version = 0) {
  SparseTable::Options options;
  options.spec = spec;
  options.seed = kSeed;
  options.shard = shard;
  options.servers = servers;
  options.versions = versions;
  options.version = version;
  return SparseTable::Create(options).value();
}

// Lets a server with all buckets have 64 rows of each in memory, the others on
// a disk.
void KeepFewInMemory(SparseTableSpec* spec) {
  const RowLayout layout = {spec->dim(),
                            RowRule::Create(*spec)->StateElements(spec->dim())};
  spec->set_memory_bytes(spec->buckets() * layout.bytes() *
                         RowBucket::kSlabRows);
  spec->mutable_disk()->set_folder(testing::TempDir());
}

// The part of `keys` that belongs to a server.
std::vector<uint64_t> KeysOf(const std::set<uint64_t>& keys,
                             const SparseTableSpec& spec, int shard,
                             int servers) {
  std::vector<uint64_t> part;
  for (const uint64_t key : keys) {
    const int bucket = BucketOfHash(KeyHash(key), spec.buckets());
    if (ServerOfBucket(bucket, servers) == shard) part.push_back(key);
  }
  return part;
}

// Gradients that depend on the key and the step only.
std::shared_ptr<const RowGradients> GradientsOf(std::vector<uint64_t> keys,
                                                int64_t step) {
  auto gradients = std::make_shared<RowGradients>();
  gradients->keys = std::move(keys);
  gradients->values = AllocateBuffer(gradients->rows() * kDim);
  for (int64_t i = 0; i < gradients->rows() * kDim; ++i) {
    const uint64_t bits =
        KeyHash(gradients->keys[i / kDim] * 31 +
                static_cast<uint64_t>(step * kDim + i % kDim));
    gradients->values.get()[i] = static_cast<float>(bits % 2001) * 1e-3f - 1;
  }
  return gradients;
}

RowsUpdate HalfScale() {
  RowsUpdate update;
  update.gradient_scale = 0.5f;
  return update;
}

// The same for ReferenceTable::Apply.
ReferenceTable::Gradients MapOf(const RowGradients& gradients) {
  ReferenceTable::Gradients map;
  for (int64_t i = 0; i < gradients.rows(); ++i) {
    const float* const row = gradients.values.get() + i * kDim;
    map[gradients.keys[i]].assign(row, row + kDim);
  }
  return map;
}

// The keys of a step: some of few, which occur often, and some of many.
std::set<uint64_t> KeysOfStep(int64_t step) {
  std::mt19937_64 random(step);
  std::set<uint64_t> keys;
  for (int i = 0; i < 40; ++i) {
    keys.insert(KeyHash(random() % (i % 2 == 0 ? 30 : 3000)));
  }
  return keys;
}

struct Policy {
  int64_t min_count, unused_steps, capacity;
  bool disk = false;
};

class SparseTableTest : public testing::TestWithParam<Policy> {
 protected:
  SparseTableTest() : spec_(Spec()) {
    const Policy policy = GetParam();
    spec_.mutable_admission()->set_min_count(policy.min_count);
    if (policy.unused_steps > 0) {
      spec_.mutable_expiry()->set_unused_steps(policy.unused_steps);
    }
    spec_.set_capacity(policy.capacity);
    if (policy.disk) KeepFewInMemory(&spec_);
  }

  SparseTableSpec spec_;
};

TEST_P(SparseTableTest, HasTheRowsOfTheReferenceForAnyNumberOfServers) {
  constexpr int kSteps = 60;
  for (const int servers : {1, 2, 3}) {
    ReferenceTable reference(spec_, kSeed);
    std::vector<std::unique_ptr<SparseTable>> tables;
    for (int shard = 0; shard < servers; ++shard) {
      tables.push_back(MakeTable(spec_, shard, servers));
    }
    for (int step = 0; step < kSteps; ++step) {
      const std::set<uint64_t> keys = KeysOfStep(step);
      reference.Apply(MapOf(*GradientsOf({keys.begin(), keys.end()}, step)),
                      HalfScale().gradient_scale, HalfScale().rate_factor);
      for (int shard = 0; shard < servers; ++shard) {
        const auto part = KeysOf(keys, spec_, shard, servers);
        ASSERT_TRUE(tables[shard]->CheckKeys(part).ok());
        ASSERT_TRUE(
            tables[shard]->Apply(GradientsOf(part, step), HalfScale()).ok());
      }
    }
    int64_t rows = 0;
    std::vector<BucketRows> buckets(spec_.buckets());
    for (const auto& table : tables) {
      rows += table->size().rows;
      for (const int bucket : table->buckets()) {
        buckets[bucket] = table->ReadBucket(bucket).value();
        rows -= static_cast<int64_t>(buckets[bucket].keys.size());
      }
    }
    EXPECT_EQ(rows, 0);
    EXPECT_EQ(DifferenceOf(buckets, reference.Buckets()), "");
    EXPECT_FALSE(buckets[0].keys.empty());
  }
}

TEST_P(SparseTableTest, EarlierVersionsCanBeRead) {
  constexpr int kVersions = 4;
  const auto table = MakeTable(spec_, 0, 1, kVersions);
  // All keys of all steps, with their values in each version.
  std::set<uint64_t> all;
  for (int step = 0; step < 40; ++step) all.merge(KeysOfStep(step));
  const std::vector<uint64_t> keys(all.begin(), all.end());
  std::vector<std::vector<float>> versions;
  ReferenceTable reference(spec_, kSeed);
  for (int step = 0; step <= 40; ++step) {
    std::vector<float> wanted;
    for (const uint64_t key : keys) {
      const std::vector<float> values = reference.Read(key);
      wanted.insert(wanted.end(), values.begin(), values.end());
    }
    versions.push_back(wanted);
    for (int version = 0; version <= step + 1; ++version) {
      std::vector<float> values(keys.size() * kDim);
      const absl::Status status = table->Read(version, keys, values.data());
      if (version > step || version <= step - kVersions) {
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      } else {
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(values, versions[version]) << version << " at " << step;
      }
    }
    const std::set<uint64_t> some = KeysOfStep(step);
    const auto sum = GradientsOf({some.begin(), some.end()}, step);
    reference.Apply(MapOf(*sum), HalfScale().gradient_scale,
                    HalfScale().rate_factor);
    ASSERT_TRUE(table->Apply(sum, HalfScale()).ok());
  }
}

std::unique_ptr<SparseTable> MakeReplicatedTable(const SparseTableSpec& spec) {
  SparseTable::Options options;
  options.spec = spec;
  options.seed = kSeed;
  options.versions = 4;
  options.replicated = true;
  return SparseTable::Create(options).value();
}

std::vector<BucketRows> BucketsOf(const SparseTable& table) {
  std::vector<BucketRows> buckets;
  for (const int bucket : table.buckets()) {
    buckets.push_back(table.ReadBucket(bucket).value());
  }
  return buckets;
}

// The values of these keys in the newest versions.
std::vector<std::vector<float>> VersionsOf(const SparseTable& table,
                                           const std::vector<uint64_t>& keys,
                                           int versions) {
  std::vector<std::vector<float>> all;
  for (int age = 0; age < versions; ++age) {
    std::vector<float>& values = all.emplace_back(keys.size() * kDim);
    const int64_t version = table.version() - age;
    if (version < 0) break;
    EXPECT_TRUE(table.Read(version, keys, values.data()).ok()) << version;
  }
  return all;
}

TEST_P(SparseTableTest, AReplicaReplaysStepsAndBothTakeTheLastOneBack) {
  const auto table = MakeReplicatedTable(spec_);
  const auto replica = MakeReplicatedTable(spec_);
  std::set<uint64_t> all;
  for (int step = 0; step < 60; ++step) all.merge(KeysOfStep(step));
  const std::vector<uint64_t> keys(all.begin(), all.end());
  int taken_back = 0;
  for (int step = 0; step < 60; ++step) {
    const std::vector<BucketRows> before = BucketsOf(*table);
    const auto versions = VersionsOf(*table, keys, 3);
    const std::set<uint64_t> some = KeysOfStep(step);
    const auto sum = GradientsOf({some.begin(), some.end()}, step);
    // Every third step is taken back and applied again.
    for (int again = step % 3 == 0 ? 1 : 0; again >= 0; --again) {
      // A step that changes nothing may still remove rows.
      ASSERT_TRUE(
          (step % 10 == 9 ? table->Skip() : table->Apply(sum, HalfScale()))
              .ok());
      const BucketRows changes = table->LastStep().value();
      ASSERT_TRUE(table->CheckKeys(AllKeysOf(changes)).ok());
      ASSERT_TRUE(replica->Replay(changes).ok());
      ASSERT_EQ(replica->version(), step + 1);
      ASSERT_EQ(DifferenceOf(BucketsOf(*replica), BucketsOf(*table)), "");
      ASSERT_EQ(VersionsOf(*replica, keys, 4), VersionsOf(*table, keys, 4));
      // The state of rows, too: the next step shows it.
      if (again == 0) break;
      for (SparseTable* const one : {table.get(), replica.get()}) {
        ASSERT_TRUE(one->CanRollBack());
        ASSERT_TRUE(one->RollBack().ok());
        EXPECT_EQ(one->version(), step);
        ASSERT_EQ(DifferenceOf(BucketsOf(*one), before), "") << step;
        ASSERT_EQ(VersionsOf(*one, keys, 3), versions);
        // Only one step can be taken back.
        EXPECT_FALSE(one->CanRollBack());
        EXPECT_EQ(one->RollBack().code(),
                  absl::StatusCode::kFailedPrecondition);
      }
      ++taken_back;
    }
  }
  EXPECT_EQ(taken_back, 20);
  // What the rows become if nothing is taken back.
  const auto straight = MakeTable(spec_, 0, 1, 4);
  for (int step = 0; step < 60; ++step) {
    const std::set<uint64_t> some = KeysOfStep(step);
    const auto sum = GradientsOf({some.begin(), some.end()}, step);
    ASSERT_TRUE(
        (step % 10 == 9 ? straight->Skip() : straight->Apply(sum, HalfScale()))
            .ok());
  }
  EXPECT_EQ(DifferenceOf(BucketsOf(*table), BucketsOf(*straight)), "");
  EXPECT_EQ(DifferenceOf(BucketsOf(*replica), BucketsOf(*straight)), "");
}

TEST_P(SparseTableTest, AllRowsCountAsChangedAfterTheyWereTakenBack) {
  const auto table = MakeReplicatedTable(spec_);
  for (int step = 0; step < 20; ++step) {
    const std::set<uint64_t> some = KeysOfStep(step);
    const auto sum = GradientsOf({some.begin(), some.end()}, step);
    ASSERT_TRUE(table->Apply(sum, HalfScale()).ok());
    if (step == 10) {
      (void)table->TakeChanges(/*steps=*/0);
      table->ConfirmChanges(table->version());
    }
  }
  ASSERT_TRUE(table->RollBack().ok());
  table->ChangeAll();
  std::vector<BucketRows> rebuilt(spec_.buckets());
  for (BucketRows& rows : table->TakeChanges(/*steps=*/0).buckets) {
    const int64_t floats = kDim + table->rule().StateElements(kDim);
    SortRows(floats, &rows);
    rows.removed.clear();
    rebuilt[rows.bucket] = rows;
  }
  for (int bucket = 0; bucket < spec_.buckets(); ++bucket) {
    rebuilt[bucket].bucket = bucket;
  }
  EXPECT_EQ(DifferenceOf(rebuilt, BucketsOf(*table)), "");
}

// The rows of all buckets, as changes build them up.
class Rebuilt {
 public:
  Rebuilt(const SparseTableSpec& spec, int64_t row_floats)
      : buckets_(spec.buckets()), row_floats_(row_floats) {
    for (int bucket = 0; bucket < spec.buckets(); ++bucket) {
      buckets_[bucket].bucket = bucket;
    }
  }

  void Apply(SparseTable::Changes changes) {
    for (BucketRows& rows : changes.buckets) {
      SortRows(row_floats_, &rows);
      ApplyChanges(rows, row_floats_, &buckets_[rows.bucket]);
    }
  }
  void ExpectEquals(const SparseTable& table) const {
    for (const int bucket : table.buckets()) {
      const BucketRows wanted = table.ReadBucket(bucket).value();
      const BucketRows& rows = buckets_[bucket];
      ASSERT_EQ(rows.keys, wanted.keys);
      EXPECT_EQ(rows.last_steps, wanted.last_steps);
      EXPECT_EQ(rows.values, wanted.values);
      ASSERT_EQ(rows.candidates.size(), wanted.candidates.size());
      for (size_t i = 0; i < wanted.candidates.size(); ++i) {
        EXPECT_EQ(rows.candidates[i].key, wanted.candidates[i].key);
        EXPECT_EQ(rows.candidates[i].steps, wanted.candidates[i].steps);
        EXPECT_EQ(rows.candidates[i].last_step, wanted.candidates[i].last_step);
      }
    }
  }

 private:
  std::vector<BucketRows> buckets_;
  const int64_t row_floats_;
};

TEST_P(SparseTableTest, ChangesAreThoseSinceTheLastConfirmedOnes) {
  const auto table = MakeTable(spec_, 0, 1, 2);
  const int64_t floats = kDim + table->rule().StateElements(kDim);
  Rebuilt rebuilt(spec_, floats);
  std::set<uint64_t> touched;
  for (int step = 0; step < 90; ++step) {
    const std::set<uint64_t> keys = KeysOfStep(step);
    touched.insert(keys.begin(), keys.end());
    ASSERT_TRUE(
        table->Apply(GradientsOf({keys.begin(), keys.end()}, step), HalfScale())
            .ok());
    if (step % 7 != 6) continue;
    SparseTable::Changes changes = table->TakeChanges(0);
    if (step % 2 == 0) table->ConfirmChanges(step);  // Of an earlier version.
    // Every third one is lost.
    if (step % 3 == 0) continue;
    for (const BucketRows& rows : changes.buckets) {
      for (const uint64_t key : rows.keys) EXPECT_EQ(touched.count(key), 1u);
    }
    rebuilt.Apply(std::move(changes));
    rebuilt.ExpectEquals(*table);
    table->ConfirmChanges(step + 1);
    touched.clear();
  }
  // All rows, from nothing.
  table->ChangeAll();
  Rebuilt whole(spec_, floats);
  whole.Apply(table->TakeChanges(0));
  whole.ExpectEquals(*table);
}

TEST_P(SparseTableTest, ChangesRestoreTheTableWithOtherServers) {
  constexpr int kSteps = 50, kVersions = 4;
  // Two servers write, one and three read.
  std::vector<std::unique_ptr<SparseTable>> sources;
  for (int shard = 0; shard < 2; ++shard) {
    sources.push_back(MakeTable(spec_, shard, 2, kVersions));
  }
  std::set<uint64_t> all;
  for (int step = 0; step < kSteps; ++step) {
    const std::set<uint64_t> keys = KeysOfStep(step);
    all.insert(keys.begin(), keys.end());
    for (int shard = 0; shard < 2; ++shard) {
      ASSERT_TRUE(sources[shard]
                      ->Apply(GradientsOf(KeysOf(keys, spec_, shard, 2), step),
                              HalfScale())
                      .ok());
    }
  }
  std::vector<SparseTable::Changes> changes = {
      sources[0]->TakeChanges(kVersions - 1),
      sources[1]->TakeChanges(kVersions - 1)};
  for (SparseTable::Changes& from : changes) {
    for (BucketRows& rows : from.buckets) {
      SortRows(rows.keys.empty() ? 0 : rows.values.size() / rows.keys.size(),
               &rows);
    }
  }
  for (const int servers : {1, 3}) {
    for (int shard = 0; shard < servers; ++shard) {
      const auto part = MakeTable(spec_, shard, servers, kVersions, kSteps);
      for (const SparseTable::Changes& from : changes) {
        for (const BucketRows& rows : from.buckets) {
          ASSERT_TRUE(part->Restore(rows).ok());
        }
      }
      for (int age = 1; age < kVersions; ++age) {
        for (const SparseTable::Changes& from : changes) {
          ASSERT_EQ(from.before[age - 1].age, age);
          ASSERT_TRUE(part->Restore(from.before[age - 1]).ok());
        }
      }
      for (const int bucket : part->buckets()) {
        const auto restored = part->ReadBucket(bucket).value();
        const auto wanted =
            sources[ServerOfBucket(bucket, 2)]->ReadBucket(bucket).value();
        EXPECT_EQ(restored.keys, wanted.keys);
        EXPECT_EQ(restored.last_steps, wanted.last_steps);
        EXPECT_EQ(restored.values, wanted.values);
        EXPECT_EQ(restored.candidates.size(), wanted.candidates.size());
      }
      for (int version = kSteps - kVersions + 1; version <= kSteps; ++version) {
        for (const uint64_t key : KeysOf(all, spec_, shard, servers)) {
          const int source =
              ServerOfBucket(BucketOfHash(KeyHash(key), spec_.buckets()), 2);
          std::vector<float> restored(kDim), wanted(kDim);
          ASSERT_TRUE(part->Read(version, {key}, restored.data()).ok());
          ASSERT_TRUE(
              sources[source]->Read(version, {key}, wanted.data()).ok());
          ASSERT_EQ(restored, wanted) << key << " in " << version;
        }
      }
    }
  }
}

TEST_P(SparseTableTest, ASkippedStepChangesNoRow) {
  const auto table = MakeTable(spec_, 0, 1);
  const std::vector<uint64_t> keys = {1, 2, 3};
  ASSERT_TRUE(table->Apply(GradientsOf(keys, 0), HalfScale()).ok());
  std::vector<float> before(keys.size() * kDim), after = before;
  ASSERT_TRUE(table->Read(1, keys, before.data()).ok());
  ASSERT_TRUE(table->Skip().ok());
  ASSERT_TRUE(table->Read(2, keys, after.data()).ok());
  EXPECT_EQ(before, after);
}

INSTANTIATE_TEST_SUITE_P(
    Policies, SparseTableTest,
    testing::Values(Policy{1, 0, 0}, Policy{3, 0, 0}, Policy{1, 5, 0},
                    Policy{1, 0, 100}, Policy{2, 4, 120}, Policy{1, 0, 0, true},
                    Policy{1, 40, 0, true}, Policy{1, 0, 700, true}));

TEST(SparseTableErrorTest, RefusesKeysThatAreNotItsOwn) {
  const auto table = MakeTable(Spec(), 0, 2);
  std::set<uint64_t> some;
  for (uint64_t key = 0; key < 100; ++key) some.insert(key);
  const std::vector<uint64_t> own = KeysOf(some, Spec(), 0, 2);
  const std::vector<uint64_t> other = KeysOf(some, Spec(), 1, 2);
  const auto code = [&](std::vector<uint64_t> keys) {
    return table->CheckKeys(keys).code();
  };
  EXPECT_EQ(code(own), absl::StatusCode::kOk);
  EXPECT_EQ(code({other[0]}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({own[1], own[0]}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({own[0], own[0]}), absl::StatusCode::kInvalidArgument);

  BucketRows rows;
  rows.bucket = 0;
  rows.keys = {other[0]};
  rows.last_steps = {0};
  rows.values.resize(3 * kDim);
  EXPECT_EQ(table->Restore(rows).code(), absl::StatusCode::kInvalidArgument);
}

TEST(SparseTableErrorTest, RefusesEarlierValuesOfAgesThatDoNotFollow) {
  const auto table = MakeTable(Spec(), 0, 1, /*versions=*/4);
  const auto code = [&](int age) {
    SparseTable::StepBefore before;
    before.age = age;
    return table->Restore(before).code();
  };
  EXPECT_EQ(code(-1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(2), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(1), absl::StatusCode::kOk);
  EXPECT_EQ(code(3), absl::StatusCode::kInvalidArgument);
  for (const int age : {1, 2, 3}) {
    EXPECT_EQ(code(age), absl::StatusCode::kOk) << age;
  }
  // Of a job with a larger lag.
  EXPECT_EQ(code(4), absl::StatusCode::kOk);
  EXPECT_EQ(code(5), absl::StatusCode::kOk);
  EXPECT_EQ(table->ReadBefore(/*steps=*/9).size(), 3u);
}

TEST(SparseTableErrorTest, ATableThatOutgrowsItsMemoryNamesTheField) {
  SparseTableSpec spec = Spec();
  spec.set_memory_bytes(1 << 16);
  const auto table = MakeTable(spec, 0, 1);
  absl::Status status;
  for (int step = 0; status.ok() && step < 1000; ++step) {
    std::vector<uint64_t> keys(100);
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = step * 100 + i;
    status = table->Apply(GradientsOf(keys, step), HalfScale());
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("memory_bytes"), std::string::npos);
  EXPECT_LE(table->size().bytes, (1 << 16) * 5 / 4);
}

TEST(SparseTableDiskTest, RowsInSegmentsOnTheDiskHaveTheSameValues) {
  SparseTableSpec spec = Spec();
  spec.mutable_expiry()->set_unused_steps(60);
  const auto memory = MakeTable(spec, 0, 1);
  KeepFewInMemory(&spec);
  const auto disk = MakeTable(spec, 0, 1);
  std::mt19937_64 random(1);
  std::vector<float> values, wanted;
  for (int step = 0; step < 120; ++step) {
    // Rows are used for some time, then the table has others.
    std::set<uint64_t> some;
    for (int i = 0; i < 3000; ++i) {
      some.insert(KeyHash(random() % 120000 + step / 40 * 60000));
    }
    const std::vector<uint64_t> keys(some.begin(), some.end());
    values.resize(keys.size() * kDim);
    wanted.resize(keys.size() * kDim);
    ASSERT_TRUE(memory->Read(step, keys, wanted.data()).ok());
    ASSERT_TRUE(disk->Read(step, keys, values.data()).ok());
    ASSERT_EQ(values, wanted);
    const auto sum = GradientsOf(keys, step);
    ASSERT_TRUE(memory->Apply(sum, HalfScale()).ok());
    ASSERT_TRUE(disk->Apply(sum, HalfScale()).ok());
  }
  EXPECT_EQ(disk->size().rows, memory->size().rows);
  // Two segments of 4 MiB at least.
  EXPECT_GT(disk->size().rows_on_disk, 100000);
  EXPECT_GE(disk->size().disk_bytes, 2 << 22);
  EXPECT_LE(disk->size().bytes, memory->size().bytes);
  for (const int bucket : disk->buckets()) {
    const BucketRows rows = disk->ReadBucket(bucket).value();
    const BucketRows expected = memory->ReadBucket(bucket).value();
    ASSERT_EQ(rows.keys, expected.keys);
    EXPECT_EQ(rows.last_steps, expected.last_steps);
    EXPECT_EQ(rows.values, expected.values);
  }
}

TEST(SparseTableDiskTest, RefusesAFolderAndAMemoryThatDoNotSuffice) {
  SparseTable::Options options;
  options.spec = Spec();
  KeepFewInMemory(&options.spec);
  options.spec.set_memory_bytes(options.spec.memory_bytes() - 1);
  const absl::Status little = SparseTable::Create(options).status();
  EXPECT_EQ(little.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(little.message().find("memory_bytes"), std::string::npos);
  KeepFewInMemory(&options.spec);
  options.spec.mutable_disk()->set_folder("/nowhere");
  const absl::Status nowhere = SparseTable::Create(options).status();
  EXPECT_EQ(nowhere.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(nowhere.message().find("/nowhere"), std::string::npos);
}

TEST(InitialRowsTest, AreFunctionsOfSeedTableAndKey) {
  SparseTableSpec spec = Spec();
  const auto row = [](const SparseTableSpec& of, uint64_t seed, uint64_t key) {
    std::vector<float> values(kDim);
    InitialRows(of, seed).Write(key, values.data());
    return values;
  };
  const std::vector<float> values = row(spec, 1, 2);
  EXPECT_EQ(row(spec, 1, 2), values);
  EXPECT_NE(row(spec, 2, 2), values);
  EXPECT_NE(row(spec, 1, uint64_t{2} << 32), values);
  for (const float value : values) EXPECT_LE(std::abs(value), 0.4473f);
  SparseTableSpec other = spec;
  other.set_name("others");
  EXPECT_NE(row(other, 1, 2), values);
  spec.set_uniform(0);
  EXPECT_EQ(row(spec, 1, 2), std::vector<float>(kDim, 0.f));
  spec.set_normal(2);
  double squares = 0;
  for (uint64_t key = 0; key < 4000; ++key) {
    for (const float value : row(spec, 1, key)) squares += value * value;
  }
  EXPECT_NEAR(squares / (4000 * kDim), 4, 0.1);
}

}  // namespace
}  // namespace tributary
