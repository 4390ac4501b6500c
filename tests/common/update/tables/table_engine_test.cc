#include "common/update/tables/table_engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/sparse/key_hash.h"
#include "common/sparse/row_gradients.h"
#include "common/update/tables/row_source.h"
#include "tests/support/executors.h"

namespace tributary {
namespace {

constexpr int kLeaves = 4;
constexpr int kSteps = 6;
constexpr int kSamples = 8;  // Of each leaf.

JobSpec Job() {
  JobSpec job;
  job.set_seed(3);
  job.mutable_batch()->set_global(kLeaves * kSamples);
  job.mutable_batch()->set_micro_batches(kLeaves);
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  job.mutable_exchange()->set_wire_dtype(ExchangeSpec::FLOAT32);
  SparseTableSpec* const users = job.mutable_sparse()->add_table();
  users->set_name("users");
  users->set_dim(3);
  users->set_buckets(4);
  users->mutable_row_wise_adagrad()->set_learning_rate(0.5);
  SparseTableSpec* const items = job.mutable_sparse()->add_table();
  items->set_name("items");
  items->set_dim(2);
  items->set_buckets(6);
  items->mutable_adam()->set_learning_rate(0.5);
  return job;
}

// The keys of a leaf in a step, and their gradients: functions of the numbers.
TableGradients LeafGradients(const JobSpec& job, int64_t step, int leaf) {
  std::mt19937_64 random(step * kLeaves + leaf);
  TableGradients tables;
  for (const SparseTableSpec& table : job.sparse().table()) {
    std::set<uint64_t> keys;
    for (int i = 0; i < 6; ++i) keys.insert(random() % 12);
    auto rows = std::make_shared<RowGradients>();
    rows->keys.assign(keys.begin(), keys.end());
    rows->values = AllocateBuffer(rows->rows() * table.dim());
    for (int64_t i = 0; i < rows->rows() * table.dim(); ++i) {
      rows->values.get()[i] = static_cast<float>(random() % 1000) * 1e-3f;
    }
    tables.push_back(std::move(rows));
  }
  return tables;
}

// The part of the gradients that belongs to a server.
TableGradients PartOf(const JobSpec& job, const TableGradients& all, int shard,
                      int servers) {
  TableGradients parts;
  for (int table = 0; table < job.sparse().table_size(); ++table) {
    const SparseTableSpec& spec = job.sparse().table(table);
    auto part = std::make_shared<RowGradients>();
    part->values = AllocateBuffer(all[table]->rows() * spec.dim());
    for (int64_t row = 0; row < all[table]->rows(); ++row) {
      const uint64_t key = all[table]->keys[row];
      if (ServerOfBucket(BucketOfHash(KeyHash(key), spec.buckets()), servers) !=
          shard) {
        continue;
      }
      std::copy_n(all[table]->values.get() + row * spec.dim(), spec.dim(),
                  part->values.get() + part->rows() * spec.dim());
      part->keys.push_back(key);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// The sum of a node of the reduction tree, as a worker computes it.
TableGradients NodeGradients(const JobSpec& job, int64_t step, int node) {
  if (node >= kLeaves) return LeafGradients(job, step, node - kLeaves);
  const RowDims dims = RowDimsOf(job.sparse());
  const TableSums sums =
      AddSums(ToSums(NodeGradients(job, step, 2 * node), dims),
              ToSums(NodeGradients(job, step, 2 * node + 1), dims), FLOAT32);
  TableGradients gradients;
  for (const auto& sum : sums) gradients.push_back(sum->Gradients());
  return gradients;
}

class TableEngineTest : public testing::Test {
 protected:
  std::unique_ptr<TableEngine> MakeEngine(const JobSpec& job, int shard = 0,
                                          int servers = 1,
                                          int64_t first_version = 0,
                                          bool whole_batches = false) {
    TableEngine::Options options;
    options.job = job;
    options.steps = kSteps;
    options.shard = shard;
    options.servers = servers;
    options.first_version = first_version;
    options.whole_batches = whole_batches;
    options.awaits_norm = job.clip_norm() > 0;
    options.rates = &rates_;
    options.on_failure = [this](const absl::Status& status) {
      failure_ = status;
    };
    options.on_sums = [this](const StepSums& sums) { sums_.push_back(sums); };
    return TableEngine::Create(options, &pool_).value();
  }

  absl::Status Add(TableEngine* engine, const JobSpec& job, int64_t step,
                   int node, int64_t contributor = 1, int shard = 0,
                   int servers = 1) {
    NodeSum sum;
    sum.step = step;
    sum.node = node;
    int leaves = kLeaves;
    for (int n = node; n > 1; n /= 2) leaves /= 2;
    sum.sample_count = leaves * kSamples;
    sum.contributor = contributor;
    sum.gradient = std::make_shared<RowSource>(
        PartOf(job, NodeGradients(job, step, node), shard, servers));
    const absl::Status status = engine->AddContribution(std::move(sum));
    pool_.RunAll();
    return status;
  }

  // The values of keys 0 to 11 of each table in a version; empty if the engine
  // has not answered.
  std::vector<float> ReadAll(TableEngine* engine, int64_t version) {
    TableKeys keys(2);
    for (uint64_t key = 0; key < 12; ++key) {
      keys[0].push_back(key);
      keys[1].push_back(key);
    }
    // The engine may answer later.
    const auto values = std::make_shared<std::vector<float>>();
    engine->Read(version, keys, [values](absl::StatusOr<Buffer> read) {
      ASSERT_TRUE(read.ok()) << read.status();
      values->assign(read->get(), read->get() + 12 * 5);
    });
    pool_.RunAll();
    return *values;
  }

  HeldExecutor pool_;
  StatedRates rates_;
  absl::Status failure_;
  std::vector<StepSums> sums_;
};

// A step at a time, from the sums of whole batches.
std::vector<std::vector<float>> ReferenceVersions(const JobSpec& job) {
  std::vector<std::unique_ptr<SparseTable>> tables;
  for (const SparseTableSpec& spec : job.sparse().table()) {
    SparseTable::Options options;
    options.spec = spec;
    options.seed = job.seed();
    tables.push_back(SparseTable::Create(options).value());
  }
  std::vector<std::vector<float>> versions;
  for (int step = 0; step <= kSteps; ++step) {
    std::vector<float>& values = versions.emplace_back();
    for (const auto& table : tables) {
      std::vector<uint64_t> keys(12);
      for (uint64_t key = 0; key < 12; ++key) keys[key] = key;
      std::vector<float> part(12 * table->dim());
      EXPECT_TRUE(table->Read(step, keys, part.data()).ok());
      values.insert(values.end(), part.begin(), part.end());
    }
    const TableGradients sum = NodeGradients(job, step, 1);
    RowsUpdate update;
    update.gradient_scale = 1.f / (kLeaves * kSamples);
    for (size_t table = 0; table < tables.size(); ++table) {
      EXPECT_TRUE(tables[table]->Apply(sum[table], update).ok());
    }
  }
  return versions;
}

TEST_F(TableEngineTest, AppliesEachStepOnceInTheOrderOfTheTree) {
  const JobSpec job = Job();
  const auto wanted = ReferenceVersions(job);
  const auto engine = MakeEngine(job);
  std::mt19937 random(1);
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_EQ(ReadAll(engine.get(), step), wanted[step]);
    // Some division of the tree among workers, in any order, and repetitions.
    std::vector<int> nodes = step % 3 == 0   ? std::vector<int>{1}
                             : step % 3 == 1 ? std::vector<int>{2, 6, 7}
                                             : std::vector<int>{4, 5, 6, 7};
    std::shuffle(nodes.begin(), nodes.end(), random);
    for (const int node : nodes) {
      ASSERT_TRUE(Add(engine.get(), job, step, node).ok());
      ASSERT_TRUE(Add(engine.get(), job, step, node).ok());
    }
    EXPECT_EQ(engine->version(), step + 1);
  }
  EXPECT_EQ(ReadAll(engine.get(), kSteps), wanted[kSteps]);
  EXPECT_EQ(ReadAll(engine.get(), kSteps - 1), wanted[kSteps - 1]);
  EXPECT_EQ(sums_.size(), static_cast<size_t>(kSteps));
}

TEST_F(TableEngineTest, ReadsWaitForTheirVersion) {
  const JobSpec job = Job();
  const auto engine = MakeEngine(job);
  TableKeys keys(2);
  keys[0] = {1, 2};
  int answers = 0;
  engine->Read(1, keys, [&](absl::StatusOr<Buffer>) { ++answers; });
  EXPECT_EQ(answers, 0);
  ASSERT_TRUE(Add(engine.get(), job, 0, 2).ok());
  EXPECT_EQ(answers, 0);
  ASSERT_TRUE(Add(engine.get(), job, 0, 3).ok());
  EXPECT_EQ(answers, 1);
  // A version that is gone.
  ASSERT_TRUE(Add(engine.get(), job, 1, 1).ok());
  absl::Status status;
  engine->Read(0, keys,
               [&](absl::StatusOr<Buffer> read) { status = read.status(); });
  pool_.RunAll();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(TableEngineTest, AStepThatALostWorkerHasBegunIsComputedAgain) {
  const JobSpec job = Job();
  const auto wanted = ReferenceVersions(job);
  const auto engine = MakeEngine(job);
  ASSERT_TRUE(Add(engine.get(), job, 0, 2, /*contributor=*/1).ok());
  engine->DropFrom(1);
  ASSERT_TRUE(Add(engine.get(), job, 0, 3, /*contributor=*/2).ok());
  EXPECT_EQ(engine->version(), 0);
  ASSERT_TRUE(Add(engine.get(), job, 0, 2, /*contributor=*/3).ok());
  EXPECT_EQ(ReadAll(engine.get(), 1), wanted[1]);
}

TEST_F(TableEngineTest, RefusesAStepThatNoWorkerCanHaveReached) {
  JobSpec job = Job();
  const auto strict = MakeEngine(job);
  EXPECT_EQ(Add(strict.get(), job, 1, 1).code(),
            absl::StatusCode::kFailedPrecondition);
  // With a lag, the contributions to a step may be complete earlier on one
  // server than on another.
  job.mutable_sparse()->set_fixed_lag(1);
  const auto engine = MakeEngine(job);
  EXPECT_TRUE(Add(engine.get(), job, 1, 1).ok());
  EXPECT_EQ(engine->version(), 0);
  EXPECT_TRUE(Add(engine.get(), job, 0, 1).ok());
  EXPECT_EQ(engine->version(), 2);
}

TEST_F(TableEngineTest, AnnouncesThatContributionsAreComplete) {
  const JobSpec job = Job();
  const auto engine = MakeEngine(job);
  std::vector<int64_t> complete;
  engine->AddListener(7, [&](int64_t v) { complete.push_back(v); });
  ASSERT_TRUE(Add(engine.get(), job, 0, 2).ok());
  EXPECT_EQ(complete, (std::vector<int64_t>{0}));
  ASSERT_TRUE(Add(engine.get(), job, 0, 3).ok());
  EXPECT_EQ(complete, (std::vector<int64_t>{0, 1}));
  engine->RemoveListener(7);
  ASSERT_TRUE(Add(engine.get(), job, 1, 1).ok());
  EXPECT_EQ(complete.size(), 2u);
}

TEST_F(TableEngineTest, AStepCountsWhenItsChangesAreReplicated) {
  JobSpec job = Job();
  job.mutable_recovery()->set_journal(true);
  const auto wanted = ReferenceVersions(job);
  const auto engine = MakeEngine(job);
  std::map<int64_t, std::vector<BucketRows>> sent;
  std::function<void()> kept;
  engine->SetReplicator([&](int64_t version, std::vector<BucketRows> changes,
                            std::function<void()> done) {
    sent[version] = std::move(changes);
    kept = std::move(done);
  });
  std::vector<int64_t> complete;
  engine->AddListener(7, [&](int64_t v) { complete.push_back(v); });
  ASSERT_TRUE(Add(engine.get(), job, 0, 1).ok());
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[1].size(), 2u);
  EXPECT_FALSE(sent[1][0].keys.empty());
  // Neither announced nor read, and a checkpoint comes too late.
  EXPECT_EQ(complete, (std::vector<int64_t>{0}));
  EXPECT_EQ(engine->version(), 0);
  EXPECT_EQ(ReadAll(engine.get(), 1), std::vector<float>());
  EXPECT_EQ(ReadAll(engine.get(), 0), wanted[0]);
  EXPECT_FALSE(engine->TakeChanges(0, [](std::vector<SparseTable::Changes>) {
    ADD_FAILURE() << "of a version that has passed";
  }));
  kept();
  pool_.RunAll();
  EXPECT_EQ(complete, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(engine->version(), 1);
  EXPECT_EQ(ReadAll(engine.get(), 1), wanted[1]);
  // The next step is not summed before.
  ASSERT_TRUE(Add(engine.get(), job, 1, 1).ok());
  EXPECT_EQ(sums_.size(), 2u);
  ASSERT_TRUE(Add(engine.get(), job, 1, 1).ok());
  EXPECT_EQ(sent.size(), 2u);
  EXPECT_EQ(engine->version(), 1);
}

// Gradients of whole numbers, which any order adds up to the same sum.
TEST_F(TableEngineTest, AppliesEachWholeBatchOnceInAnyOrder) {
  JobSpec job = Job();
  for (SparseTableSpec& table : *job.mutable_sparse()->mutable_table()) {
    table.mutable_sgd()->set_learning_rate(1);
    table.mutable_sgd()->set_momentum(0);
    table.set_uniform(0);
  }
  std::vector<float> wanted(12 * 5);
  std::vector<TableGradients> batches;
  for (int step = 0; step < kSteps; ++step) {
    TableGradients& batch = batches.emplace_back();
    std::mt19937_64 random(step);
    float* place = wanted.data();
    for (const SparseTableSpec& table : job.sparse().table()) {
      auto rows = std::make_shared<RowGradients>();
      rows->values = AllocateBuffer(12 * table.dim());
      for (uint64_t key = 0; key < 12; ++key, place += table.dim()) {
        if (random() % 2 == 0) continue;
        for (int i = 0; i < table.dim(); ++i) {
          const auto value = static_cast<float>(random() % 100);
          rows->values.get()[rows->rows() * table.dim() + i] = value;
          // The mean of a batch of 32.
          place[i] -= value / (kLeaves * kSamples);
        }
        rows->keys.push_back(key);
      }
      batch.push_back(std::move(rows));
    }
  }
  for (const int seed : {1, 2, 3}) {
    sums_.clear();
    const auto engine = MakeEngine(job, 0, 1, 0, /*whole_batches=*/true);
    std::mt19937 random(seed);
    std::vector<int> order;
    for (int step = 0; step < kSteps; ++step) {
      // Once or several times: of a worker that was lost after it had sent
      // them, or that has computed the step again.
      for (int i = 0; i <= static_cast<int>(random() % 3); ++i) {
        order.push_back(step);
      }
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const int step : order) {
      NodeSum sum;
      sum.step = step;
      sum.node = 1;
      sum.sample_count = kLeaves * kSamples;
      sum.contributor = 1 + random() % 3;
      sum.gradient = std::make_shared<RowSource>(batches[step]);
      const int64_t lost = sum.contributor;
      ASSERT_TRUE(engine->AddContribution(std::move(sum)).ok());
      // What is applied stays, and what is dropped comes again.
      if (random() % 4 == 0) {
        engine->DropFrom(lost);
        NodeSum again;
        again.step = step;
        again.node = 1;
        again.sample_count = kLeaves * kSamples;
        again.contributor = 4;
        again.gradient = std::make_shared<RowSource>(batches[step]);
        ASSERT_TRUE(engine->AddContribution(std::move(again)).ok());
      }
      if (random() % 2 == 0) pool_.RunAll();
    }
    pool_.RunAll();
    EXPECT_EQ(engine->version(), kSteps);
    EXPECT_EQ(sums_.size(), static_cast<size_t>(kSteps));
    EXPECT_EQ(ReadAll(engine.get(), kNewestRows), wanted) << seed;
    EXPECT_EQ(ReadAll(engine.get(), kSteps), wanted) << seed;
  }
}

TEST_F(TableEngineTest, AnotherEngineContinuesWithTheTables) {
  JobSpec job = Job();
  job.mutable_recovery()->set_journal(true);
  const auto wanted = ReferenceVersions(job);
  ServerTables tables;
  {
    const auto engine = MakeEngine(job);
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(Add(engine.get(), job, step, 1).ok());
    }
    tables = engine->server_tables();
  }
  for (const auto& table : tables) ASSERT_TRUE(table->RollBack().ok());
  const auto engine = MakeEngine(job, 0, 1, /*first_version=*/2);
  engine->Adopt(tables);
  EXPECT_EQ(ReadAll(engine.get(), 2), wanted[2]);
  for (int step = 2; step < kSteps; ++step) {
    ASSERT_TRUE(Add(engine.get(), job, step, 1).ok());
  }
  EXPECT_EQ(ReadAll(engine.get(), kSteps), wanted[kSteps]);
}

TEST_F(TableEngineTest, UpdatesWaitForTheNorm) {
  JobSpec job = Job();
  job.set_clip_norm(0.01);
  const auto engine = MakeEngine(job);
  ASSERT_TRUE(Add(engine.get(), job, 0, 1).ok());
  ASSERT_EQ(sums_.size(), 1u);
  EXPECT_EQ(engine->version(), 0);
  engine->SetGradientNorm(/*step=*/1, 1);
  pool_.RunAll();
  EXPECT_EQ(engine->version(), 0);
  engine->SetGradientNorm(/*step=*/0, 1);
  pool_.RunAll();
  EXPECT_EQ(engine->version(), 1);
}

TEST_F(TableEngineTest, SumsOfSquaresAreThoseOfBuckets) {
  const JobSpec job = Job();
  std::map<int, std::vector<double>> by_servers;
  for (const int servers : {1, 2, 3}) {
    // Indexed by bucket, tables one behind the other.
    std::vector<double> squares(4 + 6);
    for (int shard = 0; shard < servers; ++shard) {
      sums_.clear();
      const auto engine = MakeEngine(job, shard, servers);
      ASSERT_TRUE(
          Add(engine.get(), job, 0, 1, /*contributor=*/1, shard, servers).ok());
      ASSERT_EQ(sums_.size(), 1u);
      int next = 0;
      for (int bucket = shard; bucket < 4; bucket += servers) {
        squares[bucket] = sums_[0].row_sum_of_squares(next++);
      }
      for (int bucket = shard; bucket < 6; bucket += servers) {
        squares[4 + bucket] = sums_[0].row_sum_of_squares(next++);
      }
      EXPECT_EQ(sums_[0].row_sum_of_squares_size(), next);
    }
    by_servers[servers] = squares;
  }
  EXPECT_EQ(by_servers[1], by_servers[2]);
  EXPECT_EQ(by_servers[1], by_servers[3]);
  double total = 0, wanted = 0;
  for (const double square : by_servers[1]) total += square;
  const TableGradients sum = NodeGradients(job, 0, 1);
  for (size_t table = 0; table < sum.size(); ++table) {
    const int64_t elements =
        sum[table]->rows() * job.sparse().table(static_cast<int>(table)).dim();
    for (int64_t i = 0; i < elements; ++i) {
      wanted += std::pow(static_cast<double>(sum[table]->values.get()[i]), 2);
    }
  }
  EXPECT_NEAR(total, wanted, 1e-9 * wanted);
}

TEST_F(TableEngineTest, NamesARowThatIsNotFiniteAndItsWorker) {
  const JobSpec job = Job();
  const auto engine = MakeEngine(job);
  ASSERT_TRUE(Add(engine.get(), job, 0, 2, /*contributor=*/1).ok());
  TableGradients bad = NodeGradients(job, 0, 3);
  const uint64_t key = bad[1]->keys[0];
  bad[1]->values.get()[1] = std::numeric_limits<float>::quiet_NaN();
  NodeSum sum;
  sum.node = 3;
  sum.contributor = 2;
  sum.sample_count = 2 * kSamples;
  sum.gradient = std::make_shared<RowSource>(bad);
  ASSERT_TRUE(engine->AddContribution(std::move(sum)).ok());
  pool_.RunAll();
  ASSERT_EQ(sums_.size(), 1u);
  EXPECT_EQ(sums_[0].nonfinite_row().table(), 1);
  EXPECT_EQ(sums_[0].nonfinite_row().key(), key);
  EXPECT_EQ(sums_[0].nonfinite_row().contributor(), 2);
}

TEST_F(TableEngineTest, ChangesUpToAVersionRestoreIt) {
  JobSpec job = Job();
  job.mutable_sparse()->set_fixed_lag(1);
  const auto engine = MakeEngine(job);
  std::vector<SparseTable::Changes> copied;
  ASSERT_TRUE(
      engine->TakeChanges(3, [&](std::vector<SparseTable::Changes> tables) {
        copied = std::move(tables);
      }));
  for (int step = 0; step < 4; ++step) {
    EXPECT_EQ(copied.empty(), step < 3);
    ASSERT_TRUE(Add(engine.get(), job, step, 1).ok());
  }
  EXPECT_FALSE(
      engine->TakeChanges(3, [](std::vector<SparseTable::Changes>) {}));

  const auto resumed = MakeEngine(job, 0, 1, /*first_version=*/3);
  ASSERT_EQ(copied.size(), 2u);
  for (int table = 0; table < 2; ++table) {
    for (BucketRows& rows : copied[table].buckets) {
      SortRows(rows.keys.empty() ? 0 : rows.values.size() / rows.keys.size(),
               &rows);
      ASSERT_TRUE(resumed->table(table)->Restore(rows).ok());
    }
    ASSERT_EQ(copied[table].before.size(), 1u);
    ASSERT_TRUE(resumed->table(table)->Restore(copied[table].before[0]).ok());
  }
  // Step 3 reads version 2.
  EXPECT_EQ(ReadAll(resumed.get(), 2), ReadAll(engine.get(), 2));
  ASSERT_TRUE(Add(resumed.get(), job, 3, 1).ok());
  EXPECT_EQ(ReadAll(resumed.get(), 4), ReadAll(engine.get(), 4));
}

TEST_F(TableEngineTest, ReportsThatRowsDoNotFit) {
  JobSpec job = Job();
  job.mutable_sparse()->mutable_table(0)->set_memory_bytes(1);
  const auto engine = MakeEngine(job);
  ASSERT_TRUE(Add(engine.get(), job, 0, 1).ok());
  EXPECT_EQ(failure_.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(engine->version(), 0);
}

}  // namespace
}  // namespace tributary
