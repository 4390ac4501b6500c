// data.images in ValidateJob.
#include <string>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/common/job/job_cases.h"

namespace tributary {
namespace {

std::string Images(const std::string& fields) {
  return "data.images={train: 'pictures' " + fields + "}";
}

TEST(ImagesJobTest, AcceptsGoodJobs) {
  const Case cases[] = {
      {Cnn, {Images("")}, ""},
      {Mlp, {Images("")}, ""},
      {Cnn,
       {Images("test: 'other' height: 32 width: 32 resize: 40 channels: 1 "
               "mean: 0.5 deviation: 0.25 on_corrupt: SKIP")},
       ""},
      {Cnn,
       {Images("height: 32 width: 24 mean: [1, 2, 3] deviation: [1, 2, 3] "
               "augmentation: {resized_crop: {} flip_probability: 0.5}")},
       ""},
      {Cnn, {Images("augmentation: {crop_padding: 4}")}, ""},
  };
  for (const Case& c : cases) {
    const JobSpec job = Apply(c);
    EXPECT_TRUE(ValidateJob(job).ok()) << ValidateJob(job);
  }
}

TEST(ImagesJobTest, NamesTheFieldAndWhatIsWrong) {
  const Case cases[] = {
      {Cnn, {"data.images={}"}, "data.images.train: is required"},
      {Cnn, {"data.images={train: ''}"}, "data.images.train[0]: is empty"},
      {Cnn,
       {Images("height: 32")},
       "data.images.height: set both height and width"},
      {Cnn,
       {Images("height: 32 width: -1")},
       "data.images.width: -1 is not between 0 and 8192"},
      {Cnn, {Images("resize: 32")}, "data.images.resize: needs data.images"},
      {Cnn,
       {Images("height: 32 width: 32 resize: 31")},
       "data.images.resize: 31 is less than height or width"},
      {Cnn,
       {Images("channels: 2")},
       "data.images.channels: 2 is neither 3 (color) nor 1 (gray)"},
      {Cnn,
       {Images("mean: [1, 2]")},
       "data.images.mean: has 2 numbers; write one, or one for each of the 3"},
      {Cnn,
       {Images("deviation: 0")},
       "data.images.deviation: 0 is not between 1e-06 and 1e+06"},
      {Cnn,
       {Images("classes: 1")},
       "data.images.classes: 1 is not between 2 and"},
      {Cnn,
       {Images("augmentation: {flip_probability: 1.5}")},
       "data.images.augmentation.flip_probability: 1.5 is not between 0 and 1"},
      {Cnn,
       {Images("augmentation: {crop_padding: 4 resized_crop: {}}")},
       "data.images.augmentation.crop_padding: has no effect with "
       "resized_crop"},
      {Cnn,
       {Images("augmentation: {resized_crop: {min_area: 0}}")},
       "data.images.augmentation.resized_crop.min_area: the range from 0 to 1"},
      {Cnn,
       {Images("augmentation: {resized_crop: {max_area: 2}}")},
       "data.images.augmentation.resized_crop.min_area: the range"},
      {Cnn,
       {Images("augmentation: {resized_crop: {min_ratio: 2}}")},
       "data.images.augmentation.resized_crop.min_ratio: the range from 2"},
      {Gpt, {Images("")}, "data: model.gpt needs text data"},
      {Cnn,
       {Images(""), "model.loss=MEAN_SQUARED_ERROR"},
       "model.loss: MEAN_SQUARED_ERROR needs data.csv or data.external"},
  };
  for (const Case& c : cases) ExpectRefused(c);
}

}  // namespace
}  // namespace tributary
