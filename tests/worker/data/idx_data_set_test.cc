#include "worker/data/idx_data_set.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/data_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Three training images and one held-out image of 1 x 2 pixels.
class IdxDataSetTest : public testing::Test {
 protected:
  IdxDataSetTest() {
    folder_.Write("train-images-idx3-ubyte", train_images_);
    folder_.Write("train-labels-idx1-ubyte", IdxLabelsFile({2, 0, 1}));
    folder_.Write("t10k-images-idx3-ubyte", IdxImagesFile(1, 1, 2, "\x33\xcc"));
    folder_.Write("t10k-labels-idx1-ubyte", IdxLabelsFile({1}));
    spec_.set_directory(folder_.path());
    spec_.set_classes(3);
  }

  std::unique_ptr<IdxDataSet> Open() const {
    auto data = IdxDataSet::Open(spec_);
    EXPECT_EQ(data.status(), absl::OkStatus());
    return data.ok() ? *std::move(data) : nullptr;
  }

  const std::string train_images_ =
      IdxImagesFile(3, 1, 2, absl::string_view("\x00\xff\x66\x99\xff\x00", 6));
  DataFolder folder_;
  IdxSpec spec_;
};

TEST_F(IdxDataSetTest, SaysWhatItHolds) {
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->info().kind, DataInfo::Kind::kImages);
  EXPECT_THAT(data->info().sample_shape, ElementsAre(1, 1, 2));
  EXPECT_EQ(data->info().classes, 3);
  EXPECT_EQ(data->train_samples(), 3);
  EXPECT_EQ(data->evaluation_samples(), 1);
}

TEST_F(IdxDataSetTest, ReadsTrainingSamplesInTheGivenOrder) {
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  Batch batch;
  batch.tokens = {1};  // Left from another use.
  batch.values = {1};
  data->ReadTrain(/*epoch=*/5, {2, 1, 2}, &batch);
  EXPECT_EQ(batch.samples, 3);
  EXPECT_THAT(batch.features, ElementsAre(1, 0, 0.4f, 0.6f, 1, 0));
  EXPECT_THAT(batch.labels, ElementsAre(1, 0, 1));
  EXPECT_THAT(batch.tokens, IsEmpty());
  EXPECT_THAT(batch.values, IsEmpty());
}

TEST_F(IdxDataSetTest, ReadsHeldOutSamples) {
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  Batch batch;
  data->ReadEvaluation(0, 1, &batch);
  EXPECT_THAT(batch.features, ElementsAre(0.2f, 0.8f));
  EXPECT_THAT(batch.labels, ElementsAre(1));
}

TEST_F(IdxDataSetTest, EmptyReadsGiveEmptyBatches) {
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  Batch batch;
  batch.features = {1};
  data->ReadTrain(/*epoch=*/0, {}, &batch);
  EXPECT_EQ(batch.samples, 0);
  EXPECT_THAT(batch.features, IsEmpty());
  data->ReadEvaluation(1, 1, &batch);
  EXPECT_EQ(batch.samples, 0);
}

TEST_F(IdxDataSetTest, ScalesByMeanAndDeviation) {
  spec_.set_mean(0.5);
  spec_.set_deviation(0.25);
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0}, &batch);
  EXPECT_THAT(batch.features, ElementsAre(-2, 2));
}

TEST_F(IdxDataSetTest, CompressedFilesAreTheSameData) {
  const uint64_t plain = Open()->fingerprint();
  folder_.Write("train-images-idx3-ubyte.gz", Gzip(train_images_));
  ASSERT_EQ(remove(folder_.PathOf("train-images-idx3-ubyte").c_str()), 0);
  const auto data = Open();
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->fingerprint(), plain);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0}, &batch);
  EXPECT_THAT(batch.features, ElementsAre(0, 1));
}

TEST_F(IdxDataSetTest, OtherBytesHaveAnotherFingerprint) {
  const uint64_t before = Open()->fingerprint();
  folder_.Write("t10k-labels-idx1-ubyte", IdxLabelsFile({2}));
  EXPECT_NE(Open()->fingerprint(), before);
}

}  // namespace
}  // namespace tributary
