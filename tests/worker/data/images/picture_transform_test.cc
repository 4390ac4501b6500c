#include "worker/data/images/picture_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/worker/data/images/picture_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;

std::vector<float> Gray(std::vector<int> pixels) {
  std::vector<float> features;
  for (const int pixel : pixels) {
    features.push_back(static_cast<float>(pixel / 255.0));
  }
  return features;
}

// A gray picture with pixels 0, 1, 2, ...
Picture Ramp(int64_t height, int64_t width) {
  Picture picture = MakePicture(height, width, 1, 0);
  for (size_t i = 0; i < picture.pixels.size(); ++i) {
    picture.pixels[i] = static_cast<uint8_t>(i);
  }
  return picture;
}

ImagesSpec GraySpec() {
  ImagesSpec spec;
  spec.set_channels(1);
  return spec;
}

TEST(PictureTransformTest, CutsTheCenterOut) {
  ImagesSpec spec = GraySpec();
  spec.set_resize(4);
  std::vector<float> sample(4);
  PictureTransform(spec, 2, 2, 1).HeldOut(Ramp(4, 4), sample.data());
  EXPECT_EQ(sample, Gray({5, 6, 9, 10}));
}

TEST(PictureTransformTest, NormalizesEachChannel) {
  ImagesSpec spec;
  for (const double mean : {0.0, 0.5, 1.0}) spec.add_mean(mean);
  for (const double deviation : {1.0, 0.5, 0.25}) spec.add_deviation(deviation);
  Picture picture = MakePicture(1, 1, 3, 0);
  picture.pixels = {255, 0, 51};
  std::vector<float> sample(3);
  PictureTransform(spec, 1, 1, 1).HeldOut(picture, sample.data());
  EXPECT_EQ(sample[0], 1.0f);
  EXPECT_EQ(sample[1], -1.0f);
  EXPECT_FLOAT_EQ(sample[2], -3.2f);
}

TEST(PictureTransformTest, FlipsMirrorLeftToRight) {
  ImagesSpec spec = GraySpec();
  spec.mutable_augmentation()->set_flip_probability(1);
  std::vector<float> sample(6);
  PictureTransform(spec, 2, 3, 1).Train(Ramp(2, 3), 0, 0, sample.data());
  EXPECT_EQ(sample, Gray({2, 1, 0, 5, 4, 3}));
}

TEST(PictureTransformTest, RandomCropsVisitEveryPositionWithBlackBorders) {
  ImagesSpec spec = GraySpec();
  spec.mutable_augmentation()->set_crop_padding(1);
  const PictureTransform transform(spec, 2, 2, 1);
  Picture picture = Ramp(2, 2);
  for (uint8_t& pixel : picture.pixels) ++pixel;
  std::set<std::vector<float>> seen;
  for (int64_t index = 0; index < 200; ++index) {
    std::vector<float> sample(4);
    transform.Train(picture, 0, index, sample.data());
    seen.insert(sample);
  }
  EXPECT_EQ(seen.size(), 9u);
  EXPECT_EQ(seen.count(Gray({1, 2, 3, 4})), 1u);
  EXPECT_EQ(seen.count(Gray({0, 0, 0, 1})), 1u);
  EXPECT_EQ(seen.count(Gray({4, 0, 0, 0})), 1u);
}

TEST(PictureTransformTest, ResizedCropsKeepTheirLimits) {
  ImagesSpec spec;
  AugmentationSpec::ResizedCrop* const limits =
      spec.mutable_augmentation()->mutable_resized_crop();
  limits->set_min_area(0.25);
  limits->set_max_area(0.5);
  const PictureTransform transform(spec, 8, 8, 1);
  double area = 0;
  for (int64_t index = 0; index < 1000; ++index) {
    const PictureRectangle crop = transform.ResizedCrop(300, 400, 0, index);
    EXPECT_GE(crop.top, 0);
    EXPECT_GE(crop.left, 0);
    EXPECT_LE(crop.top + crop.height, 300);
    EXPECT_LE(crop.left + crop.width, 400);
    const double ratio = static_cast<double>(crop.width) / crop.height;
    EXPECT_GE(ratio, 0.74);
    EXPECT_LE(ratio, 1.35);
    area += static_cast<double>(crop.height * crop.width) / 120000;
  }
  EXPECT_NEAR(area / 1000, 0.375, 0.01);
}

TEST(PictureTransformTest, ResizedCropsOfLongPicturesTakeTheCenter) {
  ImagesSpec spec;
  spec.mutable_augmentation()->mutable_resized_crop()->set_min_area(1);
  const PictureRectangle crop =
      PictureTransform(spec, 8, 8, 1).ResizedCrop(30, 300, 0, 0);
  EXPECT_EQ(crop.height, 30);
  EXPECT_EQ(crop.width, 40);
  EXPECT_EQ(crop.left, 130);
}

// Test vectors of proto/DATA.md, computed by a program in Python.
TEST(PictureTransformTest, ResizedCropsArePureFunctions) {
  ImagesSpec spec;
  spec.mutable_augmentation()->mutable_resized_crop();
  const auto crop = [&spec](uint64_t seed, int64_t epoch, int64_t index) {
    const PictureRectangle r =
        PictureTransform(spec, 8, 8, seed).ResizedCrop(200, 300, epoch, index);
    return std::vector<int64_t>{r.top, r.left, r.height, r.width};
  };
  EXPECT_THAT(crop(1, 0, 0), ElementsAre(9, 113, 134, 150));
  EXPECT_THAT(crop(1, 0, 1), ElementsAre(97, 101, 79, 62));
  EXPECT_THAT(crop(1, 1, 0), ElementsAre(27, 138, 137, 122));
  EXPECT_THAT(crop(2, 0, 0), ElementsAre(49, 21, 150, 147));
  EXPECT_THAT(crop((uint64_t{1} << 40) + 7, (int64_t{1} << 33) + 5, 123456),
              ElementsAre(47, 14, 90, 93));
}

TEST(PictureTransformTest, RefusesPicturesThatWouldBecomeTooLarge) {
  ImagesSpec spec;
  spec.set_resize(4096);
  const PictureTransform transform(spec, 224, 224, 1);
  EXPECT_TRUE(transform.Check(1, 4).ok());
  EXPECT_EQ(transform.Check(1, 1 << 20).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
