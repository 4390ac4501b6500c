// All the ways in which IDX data can be wrong.
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"

namespace tributary {
namespace {

// A good idx data set with one file replaced.
std::function<JobSpec(const DataFolder&)> IdxWith(const std::string& file,
                                                  const std::string& bytes) {
  return [file, bytes](const DataFolder& folder) {
    const JobSpec job = IdxJob(folder);
    folder.Write(file, bytes);
    return job;
  };
}

// A good idx data set with one file only as .gz, of these bytes on disk.
std::function<JobSpec(const DataFolder&)> IdxWithGz(const std::string& file,
                                                    const std::string& bytes) {
  return [file, bytes](const DataFolder& folder) {
    const JobSpec job = IdxJob(folder);
    unlink(folder.PathOf(file).c_str());
    folder.Write(absl::StrCat(file, ".gz"), bytes);
    return job;
  };
}

std::vector<WrongData> WrongIdx() {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  const std::string images = IdxImagesFile(2, 2, 2, "12345678");
  return {
      {"IdxFolderMissing",
       Changed(IdxJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_idx()->set_directory(
                     folder.PathOf("none"));
               }),
       kNotFound,
       {"data.idx.directory: DIR/none: No such file or directory"}},
      {"IdxFolderIsAFile",
       Changed(IdxJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_idx()->set_directory(
                     folder.PathOf(kTrainImages));
               }),
       kInvalid,
       {"data.idx.directory: DIR/train-images-idx3-ubyte: not a folder"}},
      {"IdxFolderNotSet",
       Changed(IdxJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_idx()->clear_directory();
               }),
       kInvalid,
       {"data.idx.directory: must be set"}},
      {"IdxFileMissing",
       Changed(IdxJob,
               [](const DataFolder& folder, JobSpec*) {
                 unlink(folder.PathOf(kTestLabels).c_str());
               }),
       kNotFound,
       {"DIR/t10k-labels-idx1-ubyte: no such file, nor one with .gz"}},
      {"IdxFileIsAFolder",
       Changed(IdxJob,
               [](const DataFolder& folder, JobSpec*) {
                 unlink(folder.PathOf(kTrainImages).c_str());
                 ASSERT_EQ(symlink("/", folder.PathOf(kTrainImages).c_str()),
                           0);
               }),
       kInvalid,
       {"DIR/train-images-idx3-ubyte: cannot read: Is a directory"}},
      // A loop of links is unreadable for every user, root included.
      {"IdxFileUnreadable",
       Changed(IdxJob,
               [](const DataFolder& folder, JobSpec*) {
                 const std::string path = folder.PathOf(kTrainLabels);
                 unlink(path.c_str());
                 ASSERT_EQ(symlink(path.c_str(), path.c_str()), 0);
               }),
       kInvalid,
       {"DIR/train-labels-idx1-ubyte: cannot open: Too many levels"}},
      {"IdxImagesEmpty",
       IdxWith(kTrainImages, ""),
       kInvalid,
       {"DIR/train-images-idx3-ubyte: is empty"}},
      {"IdxLabelsInPlaceOfImages",
       IdxWith(kTrainImages, IdxLabelsFile({1, 2})),
       kInvalid,
       {"DIR/train-images-idx3-ubyte: byte 0: magic number 0x00000801",
        "this file holds labels", "images have 0x00000803"}},
      {"IdxImagesInPlaceOfLabels",
       IdxWith(kTestLabels, images),
       kInvalid,
       {"DIR/t10k-labels-idx1-ubyte: byte 0: magic number 0x00000803",
        "this file holds images", "labels have 0x00000801"}},
      {"IdxOtherKindOfFile",
       IdxWith(kTrainImages, "<!DOCTYPE html>"),
       kInvalid,
       {"byte 0: magic number 0x3c21444f; IDX images have 0x00000803"}},
      {"IdxCompressedWithoutGz",
       IdxWith(kTrainImages, Gzip(images)),
       kInvalid,
       {"magic number 0x1f8b0800", "the name should end in .gz"}},
      {"IdxNumpyArray",
       IdxWith(kTrainLabels, std::string("\x93NUMPY\x01\0v\0{'descr'", 18)),
       kInvalid,
       {"DIR/train-labels-idx1-ubyte: byte 0: magic number 0x934e554d (this is "
        "a NumPy array (.npy): convert it in Python with",
        "numpy.array([0x801, *a.shape], '>i4')", "IDX labels have 0x00000801"}},
      {"IdxHeaderCut",
       IdxWith(kTrainImages, images.substr(0, 11)),
       kInvalid,
       {"DIR/train-images-idx3-ubyte: byte 11: the file ends within its "
        "header of 16 bytes"}},
      {"IdxMagicCut",
       IdxWith(kTrainLabels, images.substr(0, 2)),
       kInvalid,
       {"byte 2: the file ends within its header of 8 bytes"}},
      {"IdxPixelsCut",
       IdxWith(kTrainImages, images.substr(0, 23)),
       kInvalid,
       {"DIR/train-images-idx3-ubyte: byte 23: the file ends; with the 2 "
        "images that its header declares it would be 24 bytes long"}},
      {"IdxLabelsCut",
       IdxWith(kTrainLabels, IdxLabelsFile({1, 2}).substr(0, 9)),
       kInvalid,
       {"byte 9: the file ends; with the 2 labels"}},
      {"IdxTooLong",
       IdxWith(kTrainImages, images + "more"),
       kInvalid,
       {"byte 24: the file continues after the 2 images that its header "
        "declares"}},
      {"IdxNoImages",
       IdxWith(kTrainImages, IdxImagesFile(0, 2, 2, "")),
       kInvalid,
       {"DIR/train-images-idx3-ubyte: byte 4: holds no images"}},
      {"IdxNoPixels",
       IdxWith(kTrainImages, IdxImagesFile(2, 0, 2, "")),
       kInvalid,
       {"byte 8: images of 0 x 2 pixels; they must have 1 to 67108864"}},
      {"IdxImagesTooLarge",
       IdxWith(kTrainImages, IdxImagesFile(1, 0xffffffff, 0xffffffff, "12")),
       kInvalid,
       {"byte 8: images of 4294967295 x 4294967295 pixels"}},
      {"IdxPromisesTooMuch",
       IdxWith(kTrainImages, IdxImagesFile(0xffffffff, 8192, 8192, "12")),
       kInvalid,
       {"byte 4: 4294967295 images of 67108864 bytes are more than"}},
      {"IdxPromisesMuch",
       IdxWith(kTrainImages, IdxImagesFile(60000, 1000, 1000, "12")),
       kInvalid,
       {"byte 18: the file ends", "would be 60000000016 bytes long"}},
      {"IdxLabelTooLarge",
       IdxWith(kTestLabels, IdxLabelsFile({10})),
       kInvalid,
       {"DIR/t10k-labels-idx1-ubyte: byte 8: label 10; data.idx.classes: "
        "labels are below 10"}},
      {"IdxCountsDiffer",
       IdxWith(kTrainLabels, IdxLabelsFile({1, 2, 3})),
       kInvalid,
       {"DIR/train-labels-idx1-ubyte: byte 4: 3 labels for 2 images in "
        "DIR/train-images-idx3-ubyte"}},
      {"IdxOneLabel",
       IdxWith(kTrainLabels, IdxLabelsFile({1})),
       kInvalid,
       {"byte 4: 1 label for 2 images in"}},
      {"IdxSizesDiffer",
       IdxWith(kTestImages, IdxImagesFile(1, 1, 4, "abcd")),
       kInvalid,
       {"DIR/t10k-images-idx3-ubyte: byte 8: images of 1 x 4 pixels; the "
        "training images have 2 x 2"}},
      {"IdxGzCut",
       IdxWithGz(kTrainImages, Gzip(images).substr(0, 30)),
       kInvalid,
       {"DIR/train-images-idx3-ubyte.gz: byte 30: gzip data end too early"}},
      {"IdxGzDamaged",
       IdxWithGz(kTrainImages, Gzip(images).substr(0, 10) + "\xff\xff\xff"),
       kInvalid,
       {"DIR/train-images-idx3-ubyte.gz: byte ", "gzip data are damaged"}},
      {"IdxGzOfPlainBytes",
       IdxWithGz(kTrainLabels, IdxLabelsFile({1, 2})),
       kInvalid,
       {"DIR/train-labels-idx1-ubyte.gz: byte ", "incorrect header check"}},
      {"IdxGzInflatesToMore",
       IdxWithGz(kTrainImages, Gzip(images + std::string(1 << 24, '0'))),
       kInvalid,
       {"byte 24: the file continues after the 2 images"}},
      {"IdxForGpt",
       Changed(IdxJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_model()->mutable_gpt();
               }),
       kInvalid,
       {"data.idx: model.gpt learns from text"}},
      {"IdxForRegression",
       Changed(IdxJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_model()->set_loss(ModelSpec::MEAN_SQUARED_ERROR);
               }),
       kInvalid,
       {"model.loss: MEAN_SQUARED_ERROR", "data.idx"}},
      {"IdxDeviationZero",
       Changed(IdxJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_idx()->set_deviation(0);
               }),
       kInvalid,
       {"data.idx.deviation: 0; must be above 0"}},
  };
}

using WrongIdxDataTest = WrongDataTest;

TEST_P(WrongIdxDataTest, IsRefusedWithItsReason) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Idx, WrongIdxDataTest, testing::ValuesIn(WrongIdx()),
                         WrongDataTest::NameOf);

}  // namespace
}  // namespace tributary
