#include "worker/data/csv_data_set.h"

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/data_test_util.h"
#include "worker/data/formats/csv_format.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CsvTable Parse(absl::string_view bytes, const CsvOptions& options = {}) {
  auto table = ParseCsv(bytes, options, "name");
  EXPECT_EQ(table.status(), absl::OkStatus());
  return table.ok() ? *std::move(table) : CsvTable();
}

TEST(ParseCsvTest, ReadsNumbersAndLabels) {
  const CsvTable table = Parse("1,2.5,0\n-3e2,+4,2\n");
  EXPECT_EQ(table.rows, 2);
  EXPECT_EQ(table.features, 2);
  EXPECT_THAT(table.cells, ElementsAre(1, 2.5, -300, 4));
  EXPECT_THAT(table.labels, ElementsAre(0, 2));
  EXPECT_THAT(table.values, IsEmpty());
}

TEST(ParseCsvTest, FormsOfTheSameTable) {
  for (const absl::string_view bytes :
       {"1,2\n3,4\n", "1,2\n3,4", "1,2\r\n3,4\r\n", " 1 ,\t2\n3,4\n\n \n",
        "\xef\xbb\xbf"
        "1,2\n3,4\n",
        "size,kind\n1,2\n3,4\n", "1,kind\n1,2\n3,4\n", ",\n1,2\n3,4\n",
        // As write.csv of R, and pandas with QUOTE_ALL, do.
        "\"1\",\"2\"\n\"3\",4\n", "\"size\",\"kind\"\n1,2\n3,4\n",
        "\"size, cm\",\"\"\"kind\"\", 0-9\"\n 1,\" 2 \" \n3,4\n",
        "5\" disk,kind\n1,2\n3,4\n",
        // As numpy.savetxt does.
        "# size,kind\n1,2\n3,4\n",
        "#\n # \"two\nsize,kind\n1,2\n#,,\n3,4\n#"}) {
    SCOPED_TRACE(bytes);
    const CsvTable table = Parse(bytes);
    EXPECT_THAT(table.cells, ElementsAre(1, 3));
    EXPECT_THAT(table.labels, ElementsAre(2, 4));
  }
}

TEST(ParseCsvTest, TakesTheLabelFromAnyColumn) {
  CsvOptions options;
  options.label_column = 0;
  EXPECT_THAT(Parse("7,8,9", options).labels, ElementsAre(7));
  EXPECT_THAT(Parse("7,8,9", options).cells, ElementsAre(8, 9));
  options.label_column = 1;
  EXPECT_THAT(Parse("7,8,9", options).cells, ElementsAre(7, 9));
  options.label_column = -3;
  EXPECT_THAT(Parse("7,8,9", options).labels, ElementsAre(7));
}

TEST(ParseCsvTest, RegressionTakesAnyFiniteNumber) {
  CsvOptions options;
  options.regression = true;
  const CsvTable table = Parse("1,-0.5\n2,1e10", options);
  EXPECT_THAT(table.values, ElementsAre(-0.5f, 1e10f));
  EXPECT_THAT(table.labels, IsEmpty());
}

class CsvDataSetTest : public testing::Test {
 protected:
  CsvDataSetTest() {
    spec_.set_train(folder_.Write("train.csv", "a,b,c\n1,2,0\n3,4,3\n5,6,1\n"));
  }

  std::unique_ptr<CsvDataSet> Open(
      ModelSpec::Loss loss = ModelSpec::CROSS_ENTROPY,
      const SparseSpec& sparse = {}) const {
    auto data = CsvDataSet::Open(spec_, loss, sparse);
    EXPECT_EQ(data.status(), absl::OkStatus());
    return data.ok() ? *std::move(data) : nullptr;
  }

  DataFolder folder_;
  CsvSpec spec_;
};

TEST_F(CsvDataSetTest, WithoutTestFileNothingIsHeldOut) {
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->train_samples(), 3);
  EXPECT_EQ(data->evaluation_samples(), 0);
  EXPECT_EQ(data->info().kind, DataInfo::Kind::kRows);
  EXPECT_THAT(data->info().sample_shape, ElementsAre(2));
}

TEST_F(CsvDataSetTest, CountsClassesFromTheTrainingLabels) {
  EXPECT_EQ(Open()->info().classes, 4);
  spec_.set_classes(7);
  EXPECT_EQ(Open()->info().classes, 7);
}

TEST_F(CsvDataSetTest, ReadsRowsInTheGivenOrder) {
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  Batch batch;
  data->ReadTrain(/*epoch=*/1, {2, 0}, &batch);
  EXPECT_EQ(batch.samples, 2);
  EXPECT_THAT(batch.features, ElementsAre(5, 6, 1, 2));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0));
  EXPECT_THAT(batch.values, IsEmpty());
}

TEST_F(CsvDataSetTest, ReadsTheTestFileForEvaluation) {
  spec_.set_test(folder_.Write("test.csv.gz", Gzip("7,8,2\n9,10,0\n")));
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->evaluation_samples(), 2);
  Batch batch;
  data->ReadEvaluation(1, 2, &batch);
  EXPECT_THAT(batch.features, ElementsAre(9, 10));
  EXPECT_THAT(batch.labels, ElementsAre(0));
}

TEST_F(CsvDataSetTest, RegressionFillsValues) {
  const auto data = Open(ModelSpec::MEAN_SQUARED_ERROR);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->info().classes, 0);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {1}, &batch);
  EXPECT_THAT(batch.values, ElementsAre(3));
  EXPECT_THAT(batch.labels, IsEmpty());
}

TEST_F(CsvDataSetTest, FingerprintCoversBothFiles) {
  const uint64_t train_only = Open()->fingerprint();
  EXPECT_EQ(Open()->fingerprint(), train_only);
  spec_.set_test(folder_.Write("test.csv", "7,8,2\n"));
  const uint64_t both = Open()->fingerprint();
  EXPECT_NE(both, train_only);
  folder_.Write("test.csv", "7,8,1\n");
  EXPECT_NE(Open()->fingerprint(), both);
}

}  // namespace
}  // namespace tributary
