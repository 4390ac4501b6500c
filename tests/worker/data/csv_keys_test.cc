// Columns of CSV files that contain keys, are ignored, or are transformed.
#include <cmath>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"
#include "worker/data/formats/feature_hash.h"
#include "worker/data/open_data_set.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kTrain[] =
    "user,age,tags,item,clicked\n"
    "ann,20,a|b,7,1\n"
    "\"b \"\"o\"\"b\",30,,8,0\n"
    "ann,40,c,7,1\n";

class CsvKeysTest : public testing::Test {
 protected:
  // `sparse` is the text of features.
  JobSpec Job(const std::string& features, const std::string& train = kTrain) {
    JobSpec job;
    CsvSpec* csv = job.mutable_data()->mutable_csv();
    csv->set_train(folder_.Write("train.csv", train));
    job.mutable_model()->set_loss(ModelSpec::BINARY_CROSS_ENTROPY);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("table { name: 't' dim: 4 } ", features),
        job.mutable_sparse()));
    return job;
  }

  std::unique_ptr<DataSet> Open(const JobSpec& job) {
    auto data = OpenDataSet(job);
    EXPECT_EQ(data.status(), absl::OkStatus());
    return data.ok() ? *std::move(data) : nullptr;
  }

  void ExpectError(const JobSpec& job, const std::string& text) {
    EXPECT_THAT(OpenDataSet(job),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }

  DataFolder folder_;
};

TEST_F(CsvKeysTest, ColumnsOfFeaturesAreKeysInsteadOfNumbers) {
  const auto data =
      Open(Job("feature { column: 'user' table: 't' } "
               "feature { column: 'tags' table: 't' separator: '|' } "
               "feature { name: 'both' cross: ['item', 'user'] table: 't' }"));
  ASSERT_NE(data, nullptr);
  EXPECT_THAT(data->info().sample_shape, ElementsAre(1));
  EXPECT_THAT(data->info().vector_dims, ElementsAre(4, 4, 4));
  EXPECT_EQ(data->info().classes, 2);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {1, 0}, &batch);
  EXPECT_THAT(batch.features, ElementsAre(30, 20));
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  const FeatureHash user("user"), tags("tags"), both("both");
  ASSERT_EQ(batch.feature_keys.size(), 3u);
  EXPECT_THAT(batch.feature_keys[0].keys,
              ElementsAre(user.Key("b \"o\"b"), user.Key("ann")));
  EXPECT_THAT(batch.feature_keys[0].ends, ElementsAre(1, 2));
  EXPECT_THAT(batch.feature_keys[1].keys,
              ElementsAre(tags.Key("a"), tags.Key("b")));
  EXPECT_THAT(batch.feature_keys[1].ends, ElementsAre(0, 2));
  EXPECT_THAT(batch.feature_keys[2].keys,
              ElementsAre(both.Key({"8", "b \"o\"b"}), both.Key({"7", "ann"})));
  // A batch is used again.
  data->ReadTrain(/*epoch=*/0, {2}, &batch);
  EXPECT_THAT(batch.feature_keys[1].keys, ElementsAre(tags.Key("c")));
  EXPECT_THAT(batch.feature_keys[1].ends, ElementsAre(1));
}

TEST_F(CsvKeysTest, ColumnsHaveNumbersInFilesWithoutAHeader) {
  const auto data =
      Open(Job("feature { column: '0' table: 't' integer_keys: true }",
               "5,1.5,0\n6,2.5,1\n"));
  ASSERT_NE(data, nullptr);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0, 1}, &batch);
  EXPECT_THAT(batch.features, ElementsAre(1.5, 2.5));
  EXPECT_THAT(batch.feature_keys[0].keys, ElementsAre(5, 6));
}

TEST_F(CsvKeysTest, SamplesMayHaveNoNumbers) {
  const auto data =
      Open(Job("feature { column: 'a' table: 't' } "
               "feature { column: 'b' table: 't' }",
               "a,b,c\nx,y,0\nz,y,1\n"));
  ASSERT_NE(data, nullptr);
  EXPECT_THAT(data->info().sample_shape, ElementsAre(0));
  EXPECT_EQ(data->train_samples(), 2);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {1}, &batch);
  EXPECT_EQ(batch.samples, 1);
  EXPECT_THAT(batch.features, IsEmpty());
  EXPECT_THAT(batch.feature_keys[0].keys,
              ElementsAre(FeatureHash("a").Key("z")));
}

TEST_F(CsvKeysTest, TheTestFileHasTheColumnsOfTheTrainingFile) {
  JobSpec job =
      Job("feature { column: 'item' table: 't' }", "item,age,clicked\n7,1,0\n");
  CsvSpec* const csv = job.mutable_data()->mutable_csv();
  for (const std::string header : {"", "item,age,clicked\n"}) {
    csv->set_test(folder_.Write("test.csv", header + "9,2,1\n"));
    const auto data = Open(job);
    ASSERT_NE(data, nullptr);
    EXPECT_EQ(data->evaluation_samples(), 1);
    Batch batch;
    data->ReadEvaluation(0, 1, &batch);
    EXPECT_THAT(batch.feature_keys[0].keys,
                ElementsAre(FeatureHash("item").Key("9")));
  }
  folder_.Write("test.csv", "age,item,clicked\n2,9,1\n");
  ExpectError(job, "test.csv:1: column 0 (counted from 0): 'age'");
}

TEST_F(CsvKeysTest, NamesTheFieldOfAWrongColumn) {
  const std::string at = "sparse.feature[0].column: ";
  ExpectError(Job("feature { column: 'usr' table: 't' }"), at);
  ExpectError(Job("feature { column: 'usr' table: 't' }"),
              "did you mean user?");
  ExpectError(Job("feature { column: '5' table: 't' }"), at);
  ExpectError(Job("feature { column: '-1' table: 't' }"), at);
  ExpectError(Job("feature { column: 'clicked' table: 't' }"),
              "data.csv.label_column");
  ExpectError(Job("feature { column: 'a' table: 't' }", "a,a,c\n1,2,0\n"), at);
  ExpectError(Job("feature { name: 'x' cross: ['user', 'usr'] table: 't' }"),
              "sparse.feature[0].cross[1]: ");
  JobSpec job = Job("feature { column: 'user' table: 't' }");
  job.mutable_data()->mutable_csv()->add_category_column(0);
  ExpectError(job, "data.csv.category_column");
  job.mutable_data()->mutable_csv()->clear_category_column();
  job.mutable_data()->mutable_csv()->add_ignored_column(-5);
  ExpectError(job, "data.csv.ignored_column");
}

TEST_F(CsvKeysTest, NamesTheLineOfAKeyThatIsNoInteger) {
  ExpectError(Job("feature { column: 'a' table: 't' integer_keys: true }",
                  "a,b,c\n17,2,0\nann,3,1\n"),
              "train.csv:3: column a: 'ann'");
}

TEST_F(CsvKeysTest, BinaryLabelsAreZeroOrOne) {
  const std::string feature = "feature { column: 'a' table: 't' }";
  ExpectError(Job(feature, "a,b,c\n1,2,0\n3,4,2\n"), "train.csv:3: label");
  ExpectError(Job(feature, "a,b,c\n1,2,0.5\n"), "train.csv:2: label");
  // One class is enough.
  EXPECT_NE(Open(Job(feature, "a,b,c\n1,2,0\n")), nullptr);
  JobSpec job = Job(feature, "a,b,c\n1,2,0\n");
  job.mutable_data()->mutable_csv()->add_category_column(-1);
  ExpectError(job, "data.csv.category_column: ");
}

TEST_F(CsvKeysTest, IgnoredColumnsAreNotRead) {
  JobSpec job = CsvJob(folder_);
  folder_.Write("train.csv", "x,note,y,kind\n1,\xff?,2,0\n3,,4,1\n");
  folder_.Write("test.csv", "5,6,7,1\n");
  job.mutable_data()->mutable_csv()->add_ignored_column(1);
  const auto data = Open(job);
  ASSERT_NE(data, nullptr);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0, 1}, &batch);
  EXPECT_THAT(batch.features, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(batch.feature_keys, IsEmpty());
  data->ReadEvaluation(0, 1, &batch);
  EXPECT_THAT(batch.features, ElementsAre(5, 7));
  EXPECT_THAT(data->encoding(), HasSubstr("left_out"));
}

TEST_F(CsvKeysTest, IgnoredColumnsMustExistAndLeaveOthers) {
  JobSpec job = CsvJob(folder_);
  CsvSpec* const csv = job.mutable_data()->mutable_csv();
  csv->add_ignored_column(3);
  ExpectError(job, "data.csv.ignored_column: 3");
  csv->set_ignored_column(0, -1);
  ExpectError(job, "data.csv.ignored_column: names column 2");
  csv->set_ignored_column(0, 0);
  csv->add_ignored_column(0);
  ExpectError(job, "data.csv.ignored_column: names column 0");
  csv->set_ignored_column(1, 1);
  ExpectError(job, "data.csv.ignored_column: leaves no column");
}

TEST_F(CsvKeysTest, LogTransformComesBeforeStandardize) {
  JobSpec job = CsvJob(folder_);
  folder_.Write("train.csv", "x,y,kind\n0,-5,0\n1,7,1\n");
  CsvSpec* const csv = job.mutable_data()->mutable_csv();
  csv->set_log_transform(true);
  auto data = Open(job);
  ASSERT_NE(data, nullptr);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0, 1}, &batch);
  EXPECT_THAT(batch.features, ElementsAre(0, 0, testing::FloatEq(std::log(2.f)),
                                          testing::FloatEq(std::log(8.f))));
  EXPECT_THAT(batch.labels, ElementsAre(0, 1));
  EXPECT_THAT(data->encoding(), HasSubstr("log_transform"));
  csv->set_standardize(true);
  data = Open(job);
  ASSERT_NE(data, nullptr);
  data->ReadTrain(/*epoch=*/0, {0, 1}, &batch);
  EXPECT_THAT(batch.features, ElementsAre(-1, -1, 1, 1));
}

}  // namespace
}  // namespace tributary
