#include "worker/data/image_data_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/images/picture_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Twenty pictures of CIFAR's shape: two of each of ten classes.
constexpr int64_t kSide = 32;
constexpr int kPictures = 20;

// The pictures in every format.
class Pictures {
 public:
  Pictures() {
    std::string cifar, pixels, labels, tar;
    mkdir(folder_.PathOf("folder").c_str(), 0755);
    for (int i = 0; i < kPictures; ++i) {
      const Picture picture = MakePicture(kSide, kSide, 3, i);
      const int label = i / 2;
      const std::string bytes(picture.pixels.begin(), picture.pixels.end());
      cifar.push_back(static_cast<char>(label));
      for (size_t c = 0; c < 3; ++c) {
        for (size_t p = c; p < bytes.size(); p += 3) cifar.push_back(bytes[p]);
      }
      pixels += bytes;
      labels.push_back(static_cast<char>(label));
      const std::string name = absl::StrCat("class", label, "/", i % 2, ".png");
      mkdir(folder_.PathOf(absl::StrCat("folder/class", label)).c_str(), 0755);
      folder_.Write(absl::StrCat("folder/", name), EncodePng(picture));
      tar += TarFile(absl::StrCat("data/", name), EncodePng(picture));
    }
    folder_.Write("train.tar", tar + TarEnd());
    folder_.Write("train.bin", cifar);
    folder_.Write("train.images.npy",
                  Npy("|u1", {kPictures, kSide, kSide, 3}, pixels));
    folder_.Write("train.labels.npy", Npy("|u1", {kPictures}, labels));
    folder_.Write("train-images-idx4-ubyte",
                  Idx({kPictures, kSide, kSide, 3}, pixels));
    folder_.Write("train-labels-idx1-ubyte", Idx({kPictures}, labels));
  }

  std::string PathOf(const std::string& name) const {
    return folder_.PathOf(name);
  }
  const DataFolder& folder() const { return folder_; }

 private:
  DataFolder folder_;
};

ImagesSpec SpecOf(const std::string& path) {
  ImagesSpec spec;
  spec.add_train(path);
  return spec;
}

absl::StatusOr<std::unique_ptr<ImageDataSet>> Open(const ImagesSpec& spec) {
  return ImageDataSet::Open(spec, /*seed=*/1, /*threads=*/2);
}

std::string ErrorOf(const ImagesSpec& spec) {
  return std::string(Open(spec).status().message());
}

TEST(ImageDataSetTest, EveryFormatGivesTheSameBits) {
  const Pictures pictures;
  Batch expected;
  for (const char* const name :
       {"folder", "train.tar", "train.bin", "train.images.npy",
        "train-images-idx4-ubyte"}) {
    ImagesSpec spec = SpecOf(pictures.PathOf(name));
    spec.set_height(24);
    spec.set_width(24);
    spec.mutable_augmentation()->mutable_resized_crop();
    spec.mutable_augmentation()->set_flip_probability(0.5);
    spec.add_mean(0.5);
    spec.add_deviation(0.25);
    const auto data = Open(spec);
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_EQ((*data)->train_samples(), kPictures);
    EXPECT_EQ((*data)->info().classes, 10);
    EXPECT_THAT((*data)->info().sample_shape, ElementsAre(3, 24, 24));
    Batch batch;
    (*data)->ReadTrain(/*epoch=*/3, {7, 0, 19}, &batch);
    ASSERT_TRUE(batch.error.ok()) << batch.error;
    EXPECT_THAT(batch.labels, ElementsAre(3, 0, 9));
    if (expected.samples == 0) expected = batch;
    EXPECT_EQ(batch.features, expected.features) << name;
  }
}

TEST(ImageDataSetTest, FingerprintsDifferForOtherDataOnly) {
  const Pictures pictures;
  const ImagesSpec spec = SpecOf(pictures.PathOf("folder"));
  const uint64_t first = (*Open(spec))->fingerprint();
  EXPECT_EQ((*Open(spec))->fingerprint(), first);
  EXPECT_EQ((*Open(SpecOf(pictures.PathOf("train.tar"))))->fingerprint(),
            first);
  pictures.folder().Write("folder/class3/1.png",
                          EncodePng(MakePicture(kSide, kSide, 3, 99)));
  EXPECT_NE((*Open(spec))->fingerprint(), first);
}

TEST(ImageDataSetTest, StopNamesThePictureWhenItIsRead) {
  const Pictures pictures;
  const std::string bad =
      pictures.folder().Write("folder/class3/1.png", "\x89PNG\r\n\x1a\nx");
  ImagesSpec spec = SpecOf(pictures.PathOf("folder"));
  spec.set_height(kSide);
  spec.set_width(kSide);
  const auto data = Open(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {6, 7}, &batch);
  EXPECT_EQ(batch.error.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(batch.error.message(),
            absl::StrCat(bad,
                         ": this PNG file cannot be decoded: the file "
                         "ends too early"));
}

TEST(ImageDataSetTest, SkipLeavesPicturesOut) {
  const Pictures pictures;
  const std::string bad = pictures.folder().Write("folder/class3/1.png", "x");
  ImagesSpec spec = SpecOf(pictures.PathOf("folder"));
  spec.set_on_corrupt(ImagesSpec::SKIP);
  const auto data = Open(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->train_samples(), kPictures - 1);
  EXPECT_THAT((*data)->warnings(), ElementsAre(HasSubstr(bad)));
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {6, 7}, &batch);
  ASSERT_TRUE(batch.error.ok()) << batch.error;
  EXPECT_THAT(batch.labels, ElementsAre(3, 4));
}

TEST(ImageDataSetTest, NamesTheMemberOfAnArchive) {
  const Pictures pictures;
  ImagesSpec spec = SpecOf(pictures.folder().Write(
      "bad.tar", TarFile("a/1.png", "x") + TarFile("b/2.png", "y")));
  EXPECT_THAT(ErrorOf(spec),
              HasSubstr("bad.tar: member a/1.png at byte 512: "));
}

TEST(ImageDataSetTest, SizesMustBeEqualUnlessTheyAreScaled) {
  const Pictures pictures;
  pictures.folder().Write("folder/class0/1.png",
                          EncodePng(MakePicture(40, 20, 3, 1)));
  ImagesSpec spec = SpecOf(pictures.PathOf("folder"));
  EXPECT_THAT(
      ErrorOf(spec),
      HasSubstr("has 40 x 20 pixels, but the first picture has 32 x 32"));
  spec.set_height(16);
  spec.set_width(24);
  EXPECT_TRUE(Open(spec).ok());
}

TEST(ImageDataSetTest, TestClassesMustOccurInTraining) {
  const Pictures pictures;
  ImagesSpec spec = SpecOf(pictures.PathOf("train.tar"));
  spec.add_test(
      pictures.folder().Write("test.tar", TarFile("zebra/1.png", "x")));
  EXPECT_THAT(ErrorOf(spec), HasSubstr("class \"zebra\""));
}

TEST(ImageDataSetTest, NamesFilesOfOtherTypes) {
  const Pictures pictures;
  const std::string other = pictures.folder().Write("folder/class0/x.gif", "");
  EXPECT_THAT(ErrorOf(SpecOf(pictures.PathOf("folder"))),
              HasSubstr(absl::StrCat(other, ": is not a picture whose type")));
  EXPECT_THAT(ErrorOf(SpecOf(other)), HasSubstr("set data.images.format"));
  EXPECT_EQ(Open(SpecOf(pictures.PathOf("nothing"))).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(ImageDataSetTest, LabelsMustBeBelowTheClasses) {
  const Pictures pictures;
  ImagesSpec spec = SpecOf(pictures.PathOf("train.images.npy"));
  spec.set_classes(9);
  EXPECT_THAT(ErrorOf(spec), HasSubstr("picture 18: label 9"));
}

TEST(ImageDataSetTest, ConvertsToGray) {
  const Pictures pictures;
  ImagesSpec spec = SpecOf(pictures.PathOf("train.bin"));
  spec.set_channels(1);
  const auto data = Open(spec);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT((*data)->info().sample_shape, ElementsAre(1, kSide, kSide));
}

}  // namespace
}  // namespace tributary
