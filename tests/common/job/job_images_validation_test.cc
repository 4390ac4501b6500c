// data.images in ValidateJob.
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

std::string Images(const std::string& fields) {
  return "data.images={train: 'pictures' " + fields + "}";
}

TEST(ImagesJobTest, AcceptsGoodJobs) {
  ExpectAccepted(Mlp, {Images("")});
  ExpectAccepted(
      Cnn, {Images(""),
            Images("test: 'other' height: 32 width: 32 resize: 40 channels: 1 "
                   "mean: 0.5 deviation: 0.25 on_corrupt: SKIP"),
            Images("height: 32 width: 24 mean: [1, 2, 3] deviation: [1, 2, 3] "
                   "augmentation: {resized_crop: {} flip_probability: 0.5}"),
            Images("augmentation: {crop_padding: 4}")});
}

TEST(ImagesJobTest, NamesTheField) {
  const struct {
    const char* fields;
    const char* message;  // After "data.images."; see Case.
  } kCases[] = {
      {"train: ''", "train[1]: "},
      {"height: 32", "height: "},
      {"height: 32 width: -1", "width: -1 "},
      {"resize: 32", "resize: needs "},
      {"height: 32 width: 32 resize: 31", "resize: 31 "},
      {"channels: 2", "channels: 2 "},
      {"mean: [1, 2]", "mean: "},
      {"deviation: 0", "deviation: 0 "},
      {"classes: 1", "classes: 1 "},
      {"augmentation: {flip_probability: 1.5}",
       "augmentation.flip_probability: 1.5 "},
      {"augmentation: {crop_padding: 4 resized_crop: {}}",
       "augmentation.crop_padding: "},
      {"augmentation: {resized_crop: {min_area: 0}}",
       "augmentation.resized_crop.min_area: the range from 0 "},
      {"augmentation: {resized_crop: {max_area: 2}}",
       "augmentation.resized_crop.min_area: the range"},
      {"augmentation: {resized_crop: {min_ratio: 2}}",
       "augmentation.resized_crop.min_ratio: the range from 2 "},
  };
  for (const auto& c : kCases) {
    ExpectRefused(
        {{Cnn, Images(c.fields), absl::StrCat("data.images.", c.message)}});
  }
  ExpectRefused({{Cnn, "data.images={}", "data.images.train: "},
                 {Gpt, Images(""), "data: model.gpt "},
                 {Cnn, Images("") + "; model.loss=MEAN_SQUARED_ERROR",
                  "model.loss: MEAN_SQUARED_ERROR "}});
}

}  // namespace
}  // namespace tributary
