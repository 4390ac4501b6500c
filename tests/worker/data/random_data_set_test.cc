#include "worker/data/random_data_set.h"

#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::Ge;
using testing::IsEmpty;
using testing::Lt;

TEST(RandomDataSetTest, MakesImagesOrRowsByTheShape) {
  JobSpec job;
  job.mutable_model()->mutable_cnn();
  RandomSpec* spec = job.mutable_data()->mutable_random();
  spec->set_samples(20);
  spec->set_classes(3);
  for (const int64_t size : {2, 5, 7}) spec->add_shape(size);
  const RandomDataSet images(job);
  EXPECT_EQ(images.info().kind, DataInfo::Kind::kImages);
  EXPECT_THAT(images.info().sample_shape, ElementsAre(2, 5, 7));
  EXPECT_EQ(images.info().classes, 3);
  EXPECT_EQ(images.train_samples(), 20);
  EXPECT_EQ(images.evaluation_samples(), 0);
  Batch batch;
  images.ReadTrain(/*epoch=*/0, {19, 0, 4}, &batch);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.features.size(), 3u * 70u);
  EXPECT_EQ(batch.labels.size(), 3u);
  EXPECT_THAT(batch.labels, Each(AllOf(Ge(0), Lt(3))));
  EXPECT_THAT(batch.tokens, IsEmpty());
  EXPECT_THAT(batch.values, IsEmpty());

  spec->clear_shape();
  spec->add_shape(8);
  EXPECT_EQ(RandomDataSet(job).info().kind, DataInfo::Kind::kRows);
}

TEST(RandomDataSetTest, MakesSequencesForGpt) {
  JobSpec job;
  job.mutable_model()->mutable_gpt()->set_context(32);
  job.mutable_data()->mutable_random()->set_samples(10);
  const RandomDataSet data(job);
  EXPECT_EQ(data.info().kind, DataInfo::Kind::kTokens);
  EXPECT_THAT(data.info().sample_shape, ElementsAre(32));
  EXPECT_EQ(data.info().classes, 256);
  Batch batch;
  data.ReadTrain(/*epoch=*/0, {9, 3}, &batch);
  EXPECT_EQ(batch.tokens.size(), 64u);
  EXPECT_THAT(batch.tokens, Each(AllOf(Ge(0), Lt(256))));
  EXPECT_EQ(batch.labels.size(), 64u);
  EXPECT_THAT(batch.labels, Each(AllOf(Ge(0), Lt(256))));
  EXPECT_THAT(batch.features, IsEmpty());

  job.mutable_model()->mutable_gpt()->set_vocabulary(5000);
  const RandomDataSet large(job);
  EXPECT_EQ(large.info().classes, 5000);
  large.ReadTrain(/*epoch=*/0, {9, 3}, &batch);
  EXPECT_THAT(batch.tokens, Each(AllOf(Ge(0), Lt(5000))));
  EXPECT_GT(*std::max_element(batch.tokens.begin(), batch.tokens.end()), 1000);
}

TEST(RandomDataSetTest, MakesEmptySamplesForSynthetic) {
  JobSpec job;
  job.mutable_model()->mutable_synthetic();
  job.mutable_data()->mutable_random()->set_samples(10);
  Batch batch;
  RandomDataSet(job).ReadTrain(/*epoch=*/0, {9, 3}, &batch);
  EXPECT_EQ(batch.samples, 2);
  EXPECT_THAT(batch.features, IsEmpty());
  EXPECT_THAT(batch.labels, ElementsAre(0, 0));
}

TEST(RandomDataSetTest, ASampleIsAlwaysTheSame) {
  JobSpec job;
  job.mutable_model()->mutable_mlp();
  job.mutable_data()->mutable_random()->add_shape(6);
  Batch alone;
  RandomDataSet(job).ReadTrain(/*epoch=*/0, {7}, &alone);
  Batch among;
  RandomDataSet(job).ReadTrain(/*epoch=*/3, {1, 7}, &among);
  among.features.erase(among.features.begin(), among.features.begin() + 6);
  EXPECT_EQ(among.features, alone.features);
  EXPECT_EQ(among.labels[1], alone.labels[0]);
}

}  // namespace
}  // namespace tributary
