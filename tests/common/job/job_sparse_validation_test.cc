// `sparse` in ValidateJob, and the data that only jobs with tables use.
#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

constexpr char kTable[] =
    "name: 't' dim: 16 row_wise_adagrad { learning_rate: 0.01 }";

JobSpec DlrmWithTables() {
  JobSpec job = Mlp();
  EXPECT_EQ(SetField(&job,
                     "model={dlrm { bottom: 8 top: 8 } loss: "
                     "BINARY_CROSS_ENTROPY}"),
            absl::OkStatus());
  EXPECT_EQ(SetField(&job, "data={clicks {}}"), absl::OkStatus());
  EXPECT_EQ(SetField(&job, absl::StrCat("sparse={table {", kTable,
                                        "} feature { column: 'C1' table: 't' "
                                        "} feature { column: 'C2' table: 't' "
                                        "}}")),
            absl::OkStatus());
  return job;
}

TEST(SparseJobTest, AcceptsGoodJobs) {
  ExpectAccepted(
      DlrmWithTables,
      {"",
       "sparse.fixed_lag=8",
       "sparse.table[0].dim=4096",
       "sparse.table[0].buckets=65536",
       "sparse.table[0].uniform=0",
       "sparse.table[0].normal=0.1",
       "sparse.table[0].adagrad={learning_rate: 1}",
       "sparse.table[0].sgd={learning_rate: 1 momentum: 0}",
       "sparse.table[0].adam={learning_rate: 1}",
       "sparse.table[0].adamw={learning_rate: 0.1 weight_decay: 0.1}",
       "sparse.table[0].admission={min_count: 3}; "
       "sparse.table[0].expiry={unused_steps: 9}; "
       "sparse.table[0].capacity=1000",
       "sparse.table[0].memory_bytes=1000",
       "sparse.table[0].memory_bytes=1000; sparse.table[0].disk={}",
       "sparse.feature[0].name=a; sparse.feature[1].name=b",
       "sparse.feature[0].separator=|; sparse.feature[0].pooling=MEAN",
       "sparse.feature[0].pooling=NONE",
       "sparse.feature[0]={name: 'x' cross: ['C1', 'C2'] table: 't'}",
       "data={csv {train: 'a.csv' log_transform: true ignored_column: 0}}",
       "data={csv {train: 'a.csv' delimiter: '\\t'}}; "
       "sparse.feature[0]={column: 'a' table: 't' separator: '\\t'}",
       "data={criteo {train: 'a.tsv' train: 'b.tsv.gz' test: 'c.tsv'}}",
       "data={clicks {scale: 0.01 exponent: 0 evaluation_samples: 0}}"});
}

TEST(SparseJobTest, NamesTheFieldOfATable) {
  const std::string path = "sparse.table[0].";
  for (const char* assignment :
       {"dim=0", "dim=4097", "buckets=0", "buckets=65537", "uniform=-1",
        "normal=-1", "sgd={learning_rate: 1}", "sgd={momentum: 0}",
        "adagrad={learning_rate: 0}", "row_wise_adagrad={}",
        "adam={learning_rate: 1 beta1: 1}", "admission={min_count: 0}",
        "expiry={}", "expiry={unused_steps: 0}", "capacity=-1",
        "memory_bytes=-1", "disk={}", "name=a/b"}) {
    const std::string field =
        std::string(assignment).substr(0, std::string(assignment).find('='));
    ExpectRefused({{DlrmWithTables, path + assignment, path + field}});
  }
  ExpectRefused({
      {DlrmWithTables, "sparse.table[0].sgd={learning_rate: 1}",
       "sparse.table[0].sgd.momentum: 0.9 "},
      {DlrmWithTables, "sparse.table[0].row_wise_adagrad={learning_rate: -1}",
       "sparse.table[0].row_wise_adagrad.learning_rate: -1 "},
      {DlrmWithTables, "sparse.table[0]={name: 't' dim: 3}",
       "sparse.table[0]: has no update rule"},
      {DlrmWithTables,
       "sparse.table[0].memory_bytes=1; sparse.table[0].disk={folder: ''}",
       "sparse.table[0].disk.folder: "},
      {DlrmWithTables, "sparse.table[0]={name: 't'}", "sparse.table[0].dim: "},
      {DlrmWithTables, "sparse.table[0]={}", "sparse.table[0].name: "},
      {DlrmWithTables, absl::StrCat("sparse.table[1]={", kTable, "}"),
       "sparse.table[1].name: \"t\" "},
  });
}

TEST(SparseJobTest, NamesTheFieldOfAFeature) {
  const std::string path = "sparse.feature[1]";
  const struct {
    const char* feature;
    const char* message;  // After `path`.
  } kCases[] = {
      {"table: 't'", ".column: is required"},
      {"column: 'C2'", ".table: "},
      {"column: 'C2' table: 'u'", ".table: there is no table \"u\""},
      {"column: 'C1' table: 't'", ".name: \"C1\" "},
      {"name: 'C1' column: 'C2' table: 't'", ".name: \"C1\" "},
      {"column: 'user id' table: 't'", ".name: \"user id\""},
      {"name: '' column: 'C2' table: 't'", ".name: "},
      {"column: 'C2' table: 't' separator: ''", ".separator: "},
      {"column: 'C2' table: 't' separator: '||'", ".separator: "},
      {"column: 'C2' table: 't' separator: '\\n'", ".separator: "},
      {"column: 'C2' table: 't' separator: '\\0'", ".separator: "},
      {"column: 'C2' table: 't' separator: '|' pooling: NONE", ".pooling: "},
      {"column: 'C2' table: 't' pooling: POOLING_UNSPECIFIED", ".pooling: "},
      {"name: 'x' cross: 'C2' table: 't'", ".cross: "},
      {"name: 'x' cross: ['C2', 'C2'] table: 't'", ".cross[1]: "},
      {"name: 'x' cross: ['C2', ''] table: 't'", ".cross[1]: "},
      {"cross: ['C2', 'C3'] table: 't'", ".name: is required"},
      {"name: 'x' cross: ['C2', 'C3'] column: 'C2' table: 't'", ".column: "},
      {"name: 'x' cross: ['C2', 'C3'] separator: '|' table: 't'",
       ".separator: "},
      {"name: 'x' cross: ['C2', 'C3'] integer_keys: true table: 't'",
       ".integer_keys: "},
  };
  for (const auto& test : kCases) {
    ExpectRefused({{DlrmWithTables, absl::StrCat(path, "={", test.feature, "}"),
                    absl::StrCat(path, test.message)}});
  }
}

TEST(SparseJobTest, NamesWhatDoesNotWorkWithTables) {
  const std::string consistency = "exchange.parameter_server.consistency";
  ExpectRefused({
      {DlrmWithTables, "sparse={}", "sparse.table: "},
      {DlrmWithTables, absl::StrCat("sparse={table {", kTable, "}}"),
       "sparse.feature: "},
      {DlrmWithTables, "sparse.fixed_lag=9", "sparse.fixed_lag: 9 "},
      {DlrmWithTables, consistency + "={asynchronous {}}; sparse.fixed_lag=1",
       "sparse.fixed_lag: "},
      {DlrmWithTables, consistency + "={asynchronous {}}; clip_norm=1",
       "clip_norm: "},
      {DlrmWithTables, consistency + "={asynchronous {}}; on_nonfinite=SKIP",
       "on_nonfinite: "},
      {DlrmWithTables, "exchange={all_reduce {}}", "exchange.all_reduce: "},
      {DlrmWithTables, consistency + "={local_steps { inner_steps: 2 }}",
       consistency + ".local_steps: "},
      {DlrmWithTables, consistency + "={stale_synchronous { staleness: 1 }}",
       consistency + ".stale_synchronous: "},
      {DlrmWithTables, "exchange.compression={eight_bit {}}",
       "exchange.compression: "},
      {DlrmWithTables, "parallel.sharded_weights=true",
       "parallel.sharded_weights: "},
      {DlrmWithTables, "parallel.pipeline={stages: 2}", "parallel.pipeline: "},
      {DlrmWithTables, "model={mlp {}}", "sparse: model.mlp "},
      {DlrmWithTables,
       "data={idx {directory: 'd'}}; model={external {name: 'n'}}", "data: "},
  });
}

TEST(SparseJobTest, ModelsThatReadTablesNeedThem) {
  for (const char* model : {"dlrm", "deepfm", "dcn_v2", "wide_and_deep"}) {
    JobSpec job = Apply(
        DlrmWithTables,
        absl::StrCat("model={", model, " {} loss: BINARY_CROSS_ENTROPY}"));
    job.clear_sparse();
    EXPECT_EQ(ValidateJob(job).code(), absl::StatusCode::kInvalidArgument)
        << model;
  }
}

TEST(SparseJobTest, NamesTheFieldOfTheData) {
  ExpectRefused({
      {DlrmWithTables, "data={criteo {}}", "data.criteo.train: "},
      {DlrmWithTables, "data={criteo {train: 'a' train: ''}}",
       "data.criteo.train[1]: "},
      {DlrmWithTables, "data={criteo {train: 'a' test: ''}}",
       "data.criteo.test[0]: "},
      {DlrmWithTables, "data.clicks.samples=0", "data.clicks.samples: 0 "},
      {DlrmWithTables, "data.clicks.evaluation_samples=-1",
       "data.clicks.evaluation_samples: -1 "},
      {DlrmWithTables, "data.clicks.scale=0", "data.clicks.scale: 0 "},
      {DlrmWithTables, "data.clicks.scale=1.5", "data.clicks.scale: 1.5 "},
      {DlrmWithTables, "data.clicks.exponent=-1", "data.clicks.exponent: -1 "},
      {DlrmWithTables, "data.clicks.exponent=4.5",
       "data.clicks.exponent: 4.5 "},
      {DlrmWithTables, "data={csv {train: 'a' classes: 2}}",
       "data.csv.classes: "},
      {DlrmWithTables, "data={csv {train: 'a' delimiter: '\\n'}}",
       "data.csv.delimiter: "},
      {DlrmWithTables, "data={csv {train: 'a' delimiter: '\\0'}}",
       "data.csv.delimiter: "},
      {DlrmWithTables, "data={csv {train: 'a' ignored_column: -1}}",
       "data.csv.ignored_column: -1 "},
      {Gpt, "data={clicks {}}", "data: model.gpt "},
      {Cnn, "data={criteo {train: 'a'}}", "data: model.cnn "},
  });
}

TEST(SparseJobTest, ResolvesInitialValuesAndNames) {
  const JobSpec job = ResolveJob(DlrmWithTables());
  EXPECT_EQ(job.sparse().table(0).uniform(), 0.25);
  EXPECT_EQ(job.sparse().feature(0).name(), "C1");
  const JobSpec normal = ResolveJob(Apply(
      DlrmWithTables, "sparse.table[0].normal=0.5; sparse.feature[0].name=a"));
  EXPECT_FALSE(normal.sparse().table(0).has_uniform());
  EXPECT_EQ(normal.sparse().feature(0).name(), "a");
}

}  // namespace
}  // namespace tributary
