#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"
#include "worker/data/open_data_set.h"

namespace tributary {
namespace {

TEST(OpenDataSetTest, OpensEachKind) {
  const DataFolder folder;
  JobSpec random;
  random.mutable_model()->mutable_gpt();
  random.mutable_data()->mutable_random();
  const struct {
    JobSpec job;
    DataInfo::Kind kind;
  } kCases[] = {{random, DataInfo::Kind::kTokens},
                {IdxJob(folder), DataInfo::Kind::kImages},
                {CsvJob(folder), DataInfo::Kind::kRows},
                {TextJob(folder), DataInfo::Kind::kTokens}};
  for (const auto& test : kCases) {
    const auto data = OpenDataSet(test.job);
    ASSERT_EQ(data.status(), absl::OkStatus());
    EXPECT_EQ((*data)->info().kind, test.kind);
  }
}

TEST(OpenDataSetTest, ExternalDataAreIndexesUnlessTheyAreNamed) {
  JobSpec job;
  job.mutable_data()->mutable_external()->set_train_samples(3);
  const auto data = OpenDataSet(job);
  ASSERT_EQ(data.status(), absl::OkStatus());
  EXPECT_EQ((*data)->info().kind, DataInfo::Kind::kIndexes);
  job.mutable_data()->mutable_external()->set_name("ratings");
  EXPECT_THAT(OpenDataSet(job),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("no data set \"ratings\"")));
}

TEST(OpenDataSetTest, TextTakesContextAndSeedFromTheJob) {
  const DataFolder folder;
  JobSpec job = TextJob(folder);
  folder.Write("text", "abcdefghijklmnopqrstuvwxyz0123456789");
  job.mutable_model()->mutable_gpt()->set_context(13);
  Batch first;
  (*OpenDataSet(job))->ReadTrain(/*epoch=*/0, {0}, &first);
  EXPECT_EQ(first.tokens.size(), 13u);
  job.set_seed(6);
  Batch second;
  (*OpenDataSet(job))->ReadTrain(/*epoch=*/0, {0}, &second);
  EXPECT_NE(first.tokens, second.tokens);
}

TEST(OpenDataSetTest, MeanSquaredErrorReadsValues) {
  const DataFolder folder;
  JobSpec job = CsvJob(folder);
  job.mutable_model()->set_loss(ModelSpec::MEAN_SQUARED_ERROR);
  folder.Write("train.csv", "1,2,0.25\n");
  const auto data = OpenDataSet(job);
  ASSERT_EQ(data.status(), absl::OkStatus());
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {0}, &batch);
  EXPECT_THAT(batch.values, testing::ElementsAre(0.25f));
}

}  // namespace
}  // namespace tributary
