#include "server/checkpoint/table_files.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/optimizer/stated_rates.h"
#include "common/os/file_system.h"
#include "common/sparse/key_hash.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/verified_file.h"
#include "tests/support/executors.h"

namespace tributary {
namespace {

JobSpec TableJob() {
  JobSpec job;
  for (const char* name : {"users", "items"}) {
    SparseTableSpec* const table = job.mutable_sparse()->add_table();
    table->set_name(name);
    table->set_dim(3);
    table->set_buckets(4);
    table->mutable_row_wise_adagrad()->set_learning_rate(0.1);
  }
  return job;
}

// The contents of a server's tables, made up. A row has 3 values and 1 number
// of state.
std::vector<SparseTable::Changes> ContentsOf(int shard, int servers) {
  std::vector<SparseTable::Changes> tables(2);
  for (int table = 0; table < 2; ++table) {
    for (int bucket = shard; bucket < 4; bucket += servers) {
      BucketRows rows;
      rows.bucket = bucket;
      for (uint64_t key = 0; key < 5; ++key) {
        rows.keys.push_back(100 * bucket + 10 * table + key);
        rows.last_steps.push_back(static_cast<uint32_t>(key));
        for (int i = 0; i < 4; ++i) {
          rows.values.push_back(static_cast<float>(rows.keys.back()) +
                                0.1f * i);
        }
      }
      rows.candidates.push_back({900, 2, 7});
      tables[table].buckets.push_back(std::move(rows));
    }
    SparseTable::StepBefore before;
    before.age = 1;
    before.keys = {uint64_t{5} + shard};
    before.existed = {1};
    before.values = {1, 2, 3};
    tables[table].before.push_back(std::move(before));
  }
  return tables;
}

class TableFilesTest : public testing::Test {
 protected:
  TableFilesTest()
      : folder_(absl::StrCat(
            testing::TempDir(), "/tables_",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    FileSystem::Posix()->MakeFolder(folder_).IgnoreError();
    job_ = TableJob();
  }

  CheckpointManifest Write(int servers) {
    CheckpointManifest manifest;
    manifest.set_servers(servers);
    manifest.set_job(job_.DebugString());
    for (int shard = 0; shard < servers; ++shard) {
      const std::string name = TableFileName(shard, servers, /*part=*/0);
      std::remove(absl::StrCat(folder_, "/", name).c_str());
      TableRecordWriter writer =
          TableRecordWriter::Create(folder_, name, FileSystem::Posix()).value();
      const auto tables = ContentsOf(shard, servers);
      for (int table = 0; table < 2; ++table) {
        for (const BucketRows& rows : tables[table].buckets) {
          EXPECT_TRUE(writer.Write(table, rows).ok());
        }
        for (const SparseTable::StepBefore& before : tables[table].before) {
          EXPECT_TRUE(writer.Write(table, before).ok());
        }
      }
      *manifest.add_file() = writer.Finish().value();
    }
    return manifest;
  }

  absl::Status Read(const CheckpointManifest& manifest, const JobSpec& job,
                    std::vector<SparseTable::Changes>* tables) {
    tables->assign(2, {});
    return ReadTableFiles(
        folder_, manifest, job.sparse(),
        [&](int table, const TableRecord& record) {
          if (const auto* const rows = std::get_if<BucketRows>(&record)) {
            (*tables)[table].buckets.push_back(*rows);
          } else {
            (*tables)[table].before.push_back(
                std::get<SparseTable::StepBefore>(record));
          }
          return absl::OkStatus();
        });
  }

  const std::string folder_;
  JobSpec job_;
};

TEST_F(TableFilesTest, RecordsAreReadAsTheyWereWritten) {
  for (const int servers : {1, 3}) {
    const CheckpointManifest manifest = Write(servers);
    std::vector<SparseTable::Changes> read;
    ASSERT_TRUE(Read(manifest, job_, &read).ok());
    std::vector<size_t> next(2);
    for (int shard = 0; shard < servers; ++shard) {
      const auto wanted = ContentsOf(shard, servers);
      for (int table = 0; table < 2; ++table) {
        ASSERT_EQ(read[table].before.size(), static_cast<size_t>(servers));
        EXPECT_EQ(read[table].before[shard].keys, wanted[table].before[0].keys);
        EXPECT_EQ(read[table].before[shard].values,
                  wanted[table].before[0].values);
        for (const BucketRows& rows : wanted[table].buckets) {
          const BucketRows& got = read[table].buckets[next[table]++];
          EXPECT_EQ(got.bucket, rows.bucket);
          EXPECT_EQ(got.keys, rows.keys);
          EXPECT_EQ(got.last_steps, rows.last_steps);
          EXPECT_EQ(got.values, rows.values);
          ASSERT_EQ(got.candidates.size(), 1u);
          EXPECT_EQ(got.candidates[0].steps, 2);
        }
      }
    }
  }
}

TEST_F(TableFilesTest, NamesAMissingOrDamagedFile) {
  const CheckpointManifest manifest = Write(1);
  std::vector<SparseTable::Changes> read;
  const std::string path = absl::StrCat(folder_, "/", TableFileName(0, 1, 0));
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(60);
    file.put('x');
  }
  const absl::Status damaged = Read(manifest, job_, &read);
  EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(damaged.message().find(path), absl::string_view::npos);
  CheckpointManifest without = manifest;
  without.clear_file();
  EXPECT_EQ(Read(without, job_, &read).code(), absl::StatusCode::kDataLoss);
}

TEST_F(TableFilesTest, RefusesTheTablesOfAnotherJob) {
  const CheckpointManifest manifest = Write(1);
  std::vector<SparseTable::Changes> read;
  for (const auto& change : std::vector<std::function<void(JobSpec*)>>{
           [](JobSpec* job) {
             job->mutable_sparse()->mutable_table()->RemoveLast();
           },
           [](JobSpec* job) {
             job->mutable_sparse()->mutable_table(1)->set_name("x");
           },
           [](JobSpec* job) {
             job->mutable_sparse()->mutable_table(1)->set_dim(4);
           },
           [](JobSpec* job) {
             job->mutable_sparse()->mutable_table(0)->set_buckets(8);
           },
           [](JobSpec* job) {
             job->mutable_sparse()->mutable_table(0)->mutable_adam();
           }}) {
    JobSpec other = job_;
    change(&other);
    EXPECT_EQ(Read(manifest, other, &read).code(),
              absl::StatusCode::kFailedPrecondition);
  }
}

// Each file has a correct digest.
TEST_F(TableFilesTest, RefusesEarlierValuesOfAgesThatDoNotFollow) {
  HeldExecutor pool;
  StatedRates rates;
  const auto restore = [&](const std::vector<int>& ages) {
    CheckpointManifest manifest;
    manifest.set_servers(1);
    manifest.set_job(job_.DebugString());
    const std::string name = TableFileName(0, 1, /*part=*/0);
    std::remove(absl::StrCat(folder_, "/", name).c_str());
    TableRecordWriter writer =
        TableRecordWriter::Create(folder_, name, FileSystem::Posix()).value();
    for (const int age : ages) {
      SparseTable::StepBefore before;
      before.age = age;
      EXPECT_TRUE(writer.Write(/*table=*/0, before).ok());
    }
    *manifest.add_file() = writer.Finish().value();
    TableEngine::Options options;
    options.job = job_;
    options.job.mutable_sparse()->set_fixed_lag(2);
    options.rates = &rates;
    const auto tables = TableEngine::Create(options, &pool).value();
    return RestoreTables(folder_, manifest, tables.get()).code();
  };
  EXPECT_EQ(restore({0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(restore({2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(restore({1, 3}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(restore({1, 2}), absl::StatusCode::kOk);
}

// Whatever bytes a file with correct digests has, reading ends with DataLoss.
TEST_F(TableFilesTest, RefusesWhatIsNoFileOfRows) {
  const CheckpointManifest good = Write(1);
  const std::string name = TableFileName(0, 1, 0);
  const std::string path = absl::StrCat(folder_, "/", name);
  std::string bytes;
  {
    std::ifstream file(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::vector<SparseTable::Changes> read;
  for (size_t change = 0; change < 200; ++change) {
    std::string changed = bytes;
    if (change < 100) {
      changed.resize(change * bytes.size() / 101);
    } else {
      // The numbers of the first record's header.
      changed[16 + change % 32] = static_cast<char>(0x80 + change);
    }
    {
      std::ofstream file(path, std::ios::binary | std::ios::trunc);
      file << changed;
    }
    CheckpointManifest manifest = good;
    *manifest.mutable_file(0) = DescribeFile(folder_, name).value();
    const absl::Status status = Read(manifest, job_, &read);
    EXPECT_TRUE(status.ok() || absl::IsDataLoss(status)) << status;
  }
}

}  // namespace
}  // namespace tributary
