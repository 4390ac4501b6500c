// Jobs with tables have the same bits for any number of workers and servers,
// also when a worker is lost.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "deploy/tools/tables/saved_table.h"
#include "gtest/gtest.h"
#include "server/checkpoint/checkpoint_diff.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"
#include "server/checkpoint/table_files.h"
#include "tests/support/local_cluster.h"

namespace tributary {
namespace {

// Rows are admitted late, expire, and are removed for want of space; one
// feature has a table of its own.
JobSpec ClickJob(int fixed_lag) {
  const absl::StatusOr<JobSpec> job = ParseJob(absl::StrCat(R"(
        model { dlrm { bottom: 8 top: 16 } }
        data { clicks { samples: 4000 evaluation_samples: 300 scale: 0.0005 } }
        batch { global: 64 micro_batches: 8 }
        optimizer { adam { learning_rate: 0.01 } }
        steps: 40
        clip_norm: 0.05
        exchange { parameter_server { chunk_bytes: 4096 } }
        sparse {
          fixed_lag: )",
                                                            fixed_lag, R"(
          table {
            name: "ids" dim: 4 buckets: 6
            row_wise_adagrad { learning_rate: 0.05 }
            admission { min_count: 2 }
            expiry { unused_steps: 5 }
          }
          table {
            name: "others" dim: 4 buckets: 3 capacity: 200
            adam { learning_rate: 0.01 }
          }
          feature { column: "C1" table: "ids" }
          feature { column: "C3" table: "ids" pooling: MEAN }
          feature { column: "C4" table: "others" pooling: NONE }
        })"),
                                               "tables");
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value_or(JobSpec());
}

class TablesTest : public testing::TestWithParam<int> {
 protected:
  // The rows of each table: keys, and their values and state.
  using Rows = std::map<std::pair<int, uint64_t>, std::vector<float>>;
  struct Result {
    std::string digest;
    double evaluation_loss = 0;
    double auc = 0;
    Rows rows;

    bool operator==(const Result& other) const {
      return digest == other.digest &&
             evaluation_loss == other.evaluation_loss && auc == other.auc &&
             rows == other.rows;
    }
  };

  TablesTest() : job_(ClickJob(GetParam())) {}

  std::string Directory() {
    const std::string path =
        absl::StrCat(testing::TempDir(), "/tables-", GetParam(), "-", ++runs_);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  // Returns the rows of the newest checkpoint, which the final folder has, too.
  Rows RowsOf(const std::string& run) {
    const auto checkpoints = ListCheckpoints(CheckpointsFolder(run));
    EXPECT_TRUE(checkpoints.ok() && !checkpoints->empty());
    Rows rows = RowsIn(checkpoints->front().path);
    EXPECT_TRUE(RowsIn(FinalFolder(run)) == rows);
    EXPECT_EQ(VerifyCheckpoint(FinalFolder(run)), absl::OkStatus());
    return rows;
  }

  Rows RowsIn(const std::string& folder) {
    const CheckpointManifest manifest = ReadManifest(folder).value();
    Rows rows;
    const absl::Status status = ReadTableFiles(
        folder, manifest, JobOf(manifest).sparse(),
        [&](int table, const TableRecord& record) {
          const auto* const bucket = std::get_if<BucketRows>(&record);
          if (bucket == nullptr) return absl::OkStatus();
          const size_t floats = bucket->keys.empty() ? 0
                                                     : bucket->values.size() /
                                                           bucket->keys.size();
          for (size_t row = 0; row < bucket->keys.size(); ++row) {
            const auto begin = bucket->values.begin() + row * floats;
            rows[{table, bucket->keys[row]}].assign(begin, begin + floats);
          }
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return rows;
  }

  Result ResultOf(LocalCluster* cluster, const std::string& run) {
    EXPECT_EQ(cluster->Await(), absl::OkStatus());
    const nlohmann::json summary = cluster->Summary();
    EXPECT_FALSE(summary.value("weights_sha256", "").empty());
    return {summary.value("weights_sha256", "none"),
            summary["evaluation"].value("loss", -1.0),
            summary["evaluation"].value("auc", -1.0), RowsOf(run)};
  }

  Result Run(int workers, int servers) {
    const std::string run = Directory();
    LocalCluster cluster(job_, servers, workers, run);
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    return ResultOf(&cluster, run);
  }

  JobSpec job_;
  int runs_ = 0;
};

TEST_P(TablesTest, AnyNumberOfProcessesGivesTheSameBits) {
  const Result one = Run(/*workers=*/1, /*servers=*/1);
  EXPECT_GT(one.rows.size(), 100u);
  EXPECT_LE(one.rows.size(), 1000u);
  EXPECT_TRUE(Run(/*workers=*/2, /*servers=*/1) == one);
  job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  EXPECT_TRUE(Run(/*workers=*/3, /*servers=*/3) == one);
}

TEST_P(TablesTest, EightBitRowsHaveTheSameBits) {
  const Result exact = Run(/*workers=*/1, /*servers=*/1);
  job_.mutable_sparse()->set_wire_dtype(SparseSpec::INT8);
  const Result one = Run(/*workers=*/1, /*servers=*/1);
  EXPECT_NE(one.digest, exact.digest);
  EXPECT_NEAR(one.evaluation_loss, exact.evaluation_loss, 0.02);
  EXPECT_TRUE(Run(/*workers=*/2, /*servers=*/3) == one);
  job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  EXPECT_TRUE(Run(/*workers=*/3, /*servers=*/1) == one);
}

TEST_P(TablesTest, ALostWorkerCostsNoBits) {
  job_.set_steps(80);
  const Result whole = Run(/*workers=*/1, /*servers=*/1);
  const std::string run = Directory();
  LocalCluster cluster(job_, /*servers=*/2, /*workers=*/2, run);
  for (int i = 0; i < 2; ++i) cluster.StartWorkerOfRank(i);
  cluster.AwaitStep(10);
  cluster.KillWorker(0);
  cluster.AwaitStep(20);
  cluster.StartWorker();
  EXPECT_TRUE(ResultOf(&cluster, run) == whole);
}

TEST_P(TablesTest, ToolsReadTheTablesOfARun) {
  const Result result = Run(/*workers=*/1, /*servers=*/2);
  const std::string run =
      absl::StrCat(testing::TempDir(), "/tables-", GetParam(), "-", runs_);
  // The final folder suffices.
  std::filesystem::rename(run + "/checkpoints", run + "/away");
  const auto statistics = MeasureTables(run);
  ASSERT_TRUE(statistics.ok()) << statistics.status();
  ASSERT_EQ(statistics->size(), 2u);
  EXPECT_EQ((*statistics)[0].rows + (*statistics)[1].rows,
            static_cast<int64_t>(result.rows.size()));
  EXPECT_GT((*statistics)[0].candidates, 0);
  EXPECT_LT((*statistics)[0].oldest_age, 2 * 5);

  for (const auto& [place, values] : result.rows) {
    const auto row =
        LookUpKey(run, place.first == 0 ? "ids" : "others", place.second);
    ASSERT_TRUE(row.ok() && row->exists) << row.status();
    EXPECT_TRUE(
        std::equal(row->values.begin(), row->values.end(), values.begin()));
    break;
  }
  const auto text = LookUpText(run, "C1", "no such text");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(text->exists);
  EXPECT_EQ(text->values.size(), 4u);
  EXPECT_EQ(LookUpKey(run, "none", 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MeasureTables(run + "x").status().code(),
            absl::StatusCode::kNotFound);

  const auto exported = ExportTable(run, "others", run + "-others");
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_EQ(exported->rows, (*statistics)[1].rows);
  std::ifstream file(exported->folder + "/keys.npy", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  ASSERT_EQ(bytes.size() % 64, exported->rows * 8 % 64);
  uint64_t first = 0;
  std::memcpy(&first, bytes.data() + bytes.size() - exported->rows * 8, 8);
  EXPECT_EQ(result.rows.count({1, first}), 1u);

  std::filesystem::rename(run + "/away", run + "/checkpoints");
  // Another run has the same rows, and one with another seed has others.
  Run(/*workers=*/2, /*servers=*/1);
  const auto newest = [&](int number) {
    return ListCheckpoints(
               CheckpointsFolder(absl::StrCat(testing::TempDir(), "/tables-",
                                              GetParam(), "-", number)))
        .value()
        .front()
        .path;
  };
  const auto same = DiffCheckpoints(newest(runs_ - 1), newest(runs_));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE(same->equal());
  EXPECT_EQ(same->tables.size(), 2u);
  // Of the final folders.
  const auto folder = [&](int number) {
    return absl::StrCat(testing::TempDir(), "/tables-", GetParam(), "-",
                        number);
  };
  const auto tables = DiffTables(folder(runs_ - 1), folder(runs_));
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 2u);
  EXPECT_TRUE((*tables)[0].equal() && (*tables)[1].equal());
  job_.set_seed(99);
  Run(/*workers=*/1, /*servers=*/1);
  const auto other = DiffCheckpoints(newest(runs_ - 1), newest(runs_));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_FALSE(other->tables[0].equal());
}

INSTANTIATE_TEST_SUITE_P(Lags, TablesTest, testing::Values(0, 1));

}  // namespace
}  // namespace tributary
