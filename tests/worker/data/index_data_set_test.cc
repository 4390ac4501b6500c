#include "worker/data/index_data_set.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IndexDataSetTest, YieldsTheIndexesAndTheEpoch) {
  ExternalDataSpec spec;
  spec.set_train_samples(9);
  spec.set_evaluation_samples(5);
  spec.set_fingerprint(77);
  const IndexDataSet data(spec);
  EXPECT_EQ(data.info().kind, DataInfo::Kind::kIndexes);
  EXPECT_THAT(data.info().sample_shape, IsEmpty());
  EXPECT_EQ(data.train_samples(), 9);
  EXPECT_EQ(data.evaluation_samples(), 5);
  EXPECT_EQ(data.fingerprint(), 77u);
  Batch batch;
  data.ReadTrain(/*epoch=*/3, {8, 0}, &batch);
  EXPECT_EQ(batch.samples, 2);
  EXPECT_EQ(batch.epoch, 3);
  EXPECT_THAT(batch.indexes, ElementsAre(8, 0));
  EXPECT_THAT(batch.labels, IsEmpty());
  data.ReadEvaluation(/*begin=*/2, /*end=*/5, &batch);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_EQ(batch.epoch, 0);
  EXPECT_THAT(batch.indexes, ElementsAre(2, 3, 4));
}

}  // namespace
}  // namespace tributary
