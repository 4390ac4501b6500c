#include "common/plan/row_memory.h"

#include <cstring>
#include <memory>
#include <string>

#include "common/plan/memory_account.h"
#include "common/plan/row_traffic.h"
#include "common/sparse/sparse_table.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

JobSpec JobWithTables(const std::string& more = "") {
  JobSpec job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(batch { global: 64 micro_batches: 4 }
         sparse {
           table { name: "a" dim: 30 buckets: 8 capacity: 800
                   row_wise_adagrad { learning_rate: 0.1 } }
           table { name: "b" dim: 14 adam { learning_rate: 0.1 } )" +
          more + R"( }
           feature { column: "x" table: "a" }
           feature { column: "y" table: "b" }
           feature { column: "z" table: "b" }
         })",
      &job));
  return job;
}

TEST(RowMemoryTest, ARowTakesWhatATableTakes) {
  const JobSpec job = JobWithTables();
  for (SparseTableSpec spec : job.sparse().table()) {
    SCOPED_TRACE(spec.name());
    spec.clear_capacity();
    SparseTable::Options options;
    options.spec = spec;
    const auto table = SparseTable::Create(options);
    ASSERT_TRUE(table.ok()) << table.status();
    constexpr int64_t kRows = 300000;
    auto rows = std::make_shared<RowGradients>();
    for (int64_t key = 0; key < kRows; ++key) rows->keys.push_back(key);
    rows->values = AllocateBuffer(kRows * spec.dim());
    std::memset(rows->values.get(), 0, kRows * spec.dim() * sizeof(float));
    ASSERT_TRUE((*table)->Apply(rows, RowsUpdate()).ok());
    const SparseTable::Size size = (*table)->size();
    ASSERT_EQ(size.rows, kRows);
    const auto account = static_cast<double>(RowBytes(spec) * kRows);
    // Regions and indexes are not full.
    EXPECT_NEAR(account / static_cast<double>(size.bytes), 0.9, 0.1);
  }
}

TEST(RowMemoryTest, CapacityOrMemoryBoundsTheRowsOfAServer) {
  const JobSpec job = JobWithTables();
  const SparseTableSpec& a = job.sparse().table(0);
  EXPECT_EQ(ServerTableBytes(job, 1), 800 * RowBytes(a));
  // One of three servers has three of the eight buckets.
  EXPECT_EQ(ServerTableBytes(job, 3), 300 * RowBytes(a));
  const JobSpec limited = JobWithTables("memory_bytes: 5000");
  EXPECT_EQ(ServerTableBytes(limited, 1), 800 * RowBytes(a) + 5000);
  JobSpec replicated = job;
  replicated.mutable_recovery()->set_journal(true);
  EXPECT_EQ(ServerTableBytes(replicated, 1), 1600 * RowBytes(a));
  EXPECT_THAT(DescribeTables(job.sparse()), HasSubstr("b: "));
  EXPECT_THAT(DescribeTables(job.sparse()), HasSubstr("at most 800 rows"));
  EXPECT_THAT(DescribeTables(job.sparse()), HasSubstr("not counted"));
}

TEST(RowMemoryTest, AccountsContainTheRowsOfSteps) {
  JobSpec job = JobWithTables();
  // A key and a row for each of the three features.
  constexpr int64_t kSample = 3 * 8 + 4 * (30 + 14 + 14);
  EXPECT_EQ(ServerStepRowBytes(job, 2), 3 * 64 * kSample / 2);
  job.mutable_sparse()->set_fixed_lag(1);
  EXPECT_EQ(ServerStepRowBytes(job, 2), 5 * 64 * kSample / 2);
  JobSpec replicated = job;
  replicated.mutable_recovery()->set_journal(true);
  EXPECT_EQ(ServerStepRowBytes(replicated, 2), 12 * 64 * kSample / 2);
  WorkerLoad load = {job};
  load.micro_batches = 2;
  load.threads = 1;
  EXPECT_EQ(WorkerMemory(load).rows(), (4 + 2 + 2) * 16 * kSample);
  EXPECT_EQ(ServerMemory({job, 100, 1, true, 77}).rows(), 77);
}

TEST(RowMemoryTest, TrafficDependsOnTheFormatOfRows) {
  JobSpec job = JobWithTables();
  // Three keys, which are sent twice, and three rows.
  constexpr double kKeys = 64 * 3 * 16, kValues = 64 * (30 + 14 + 14);
  const auto expect = [&](double row_bytes) {
    const ChunkMessages rows = RowTraffic(job);
    EXPECT_EQ(rows.up, kKeys + row_bytes);
    EXPECT_EQ(rows.down, row_bytes);
  };
  expect(4 * kValues);
  EXPECT_THAT(DescribeRowTraffic(job), HasSubstr("14848 bytes"));
  job.mutable_exchange()->set_wire_dtype(ExchangeSpec::BFLOAT16);
  expect(2 * kValues);
  job.mutable_sparse()->set_wire_dtype(SparseSpec::INT8);
  // A byte for each row.
  expect(kValues + 64 * 3);
  EXPECT_EQ(DescribeRowTraffic(JobSpec()), "");
}

}  // namespace
}  // namespace tributary
