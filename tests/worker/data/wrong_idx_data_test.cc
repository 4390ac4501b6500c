// All the ways in which IDX data can be wrong.
#include <unistd.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"

namespace tributary {
namespace {

MakeData IdxWith(const std::string& file, const std::string& bytes) {
  return With(IdxJob, file, bytes);
}

// Valid data, except that one file is a link to `target`, or is missing if
// `target` is empty.
MakeData IdxWithLink(const std::string& file, const std::string& target) {
  return [=](const DataFolder& folder) {
    const JobSpec job = IdxJob(folder);
    const std::string path = folder.PathOf(file);
    unlink(path.c_str());
    if (!target.empty()) {
      EXPECT_EQ(symlink(target.c_str(), path.c_str()), 0);
    }
    return job;
  };
}

// Valid data, except that one file is there only as .gz, with these bytes.
MakeData IdxWithGz(const std::string& file, const std::string& bytes) {
  return With(IdxWithLink(file, ""), absl::StrCat(file, ".gz"), bytes);
}

std::string TrainImages() { return IdxImagesFile(2, 2, 2, "12345678"); }

TEST(WrongIdxDataTest, FilesThatAreNone) {
  ExpectRefused(
      {{Set(IdxJob, "data.idx.directory=DIR/none"),
        {"data.idx.directory: DIR/none: "}},
       {IdxWithLink(kTestLabels, ""), {"DIR/t10k-labels-idx1-ubyte: "}}},
      absl::StatusCode::kNotFound);
  ExpectRefused({
      {Set(IdxJob, "data.idx.directory=DIR/train-images-idx3-ubyte"),
       {"data.idx.directory: DIR/train-images-idx3-ubyte: "}},
      {Set(IdxJob, "data.idx={}"), {"data.idx.directory: "}},
      {IdxWithLink(kTrainImages, "/"), {"DIR/train-images-idx3-ubyte: "}},
      // A loop of links is unreadable for every user, root included.
      {IdxWithLink(kTrainLabels, kTrainLabels),
       {"DIR/train-labels-idx1-ubyte: "}},
      {IdxWith(kTrainImages, ""), {"DIR/train-images-idx3-ubyte: is empty"}},
  });
}

TEST(WrongIdxDataTest, OtherFormats) {
  ExpectRefused({
      {IdxWith(kTrainImages, IdxLabelsFile({1, 2})),
       {"DIR/train-images-idx3-ubyte: byte 0: ", "0x00000801", "holds labels",
        "0x00000803"}},
      {IdxWith(kTestLabels, TrainImages()),
       {"DIR/t10k-labels-idx1-ubyte: byte 0: ", "0x00000803", "holds images",
        "0x00000801"}},
      {IdxWith(kTrainImages, "<!DOCTYPE html>"),
       {"byte 0: ", "0x3c21444f", "0x00000803"}},
      {IdxWith(kTrainImages, Gzip(TrainImages())), {"0x1f8b0800", ".gz"}},
      {IdxWith(kTrainLabels, std::string("\x93NUMPY\x01\0v\0{'descr'", 18)),
       {"DIR/train-labels-idx1-ubyte: byte 0: ", "0x934e554d", "NumPy",
        "numpy.array([0x801, *a.shape], '>i4')", "0x00000801"}},
  });
}

TEST(WrongIdxDataTest, Sizes) {
  ExpectRefused({
      {IdxWith(kTrainImages, TrainImages().substr(0, 11)),
       {"DIR/train-images-idx3-ubyte: byte 11: ", "header of 16 bytes"}},
      {IdxWith(kTrainLabels, TrainImages().substr(0, 2)),
       {"byte 2: ", "header of 8 bytes"}},
      {IdxWith(kTrainImages, TrainImages().substr(0, 23)),
       {"DIR/train-images-idx3-ubyte: byte 23: ", "2 images", "24 bytes"}},
      {IdxWith(kTrainLabels, IdxLabelsFile({1, 2}).substr(0, 9)),
       {"byte 9: ", "2 labels"}},
      {IdxWith(kTrainImages, TrainImages() + "more"),
       {"byte 24: ", "2 images"}},
      {IdxWith(kTrainImages, IdxImagesFile(0, 2, 2, "")),
       {"DIR/train-images-idx3-ubyte: byte 4: ", "no images"}},
      {IdxWith(kTrainImages, IdxImagesFile(2, 0, 2, "")),
       {"byte 8: ", "0 x 2 pixels"}},
      {IdxWith(kTrainImages, IdxImagesFile(1, 0xffffffff, 0xffffffff, "12")),
       {"byte 8: ", "4294967295 x 4294967295 pixels"}},
      {IdxWith(kTrainImages, IdxImagesFile(0xffffffff, 8192, 8192, "12")),
       {"byte 4: 4294967295 images of 67108864 bytes"}},
      {IdxWith(kTrainImages, IdxImagesFile(60000, 1000, 1000, "12")),
       {"byte 18: ", "60000000016 bytes"}},
      {IdxWith(kTrainLabels, IdxLabelsFile({1, 2, 3})),
       {"DIR/train-labels-idx1-ubyte: byte 4: 3 labels for 2 images in "
        "DIR/train-images-idx3-ubyte"}},
      {IdxWith(kTrainLabels, IdxLabelsFile({1})),
       {"byte 4: 1 label for 2 images"}},
      {IdxWith(kTestImages, IdxImagesFile(1, 1, 4, "abcd")),
       {"DIR/t10k-images-idx3-ubyte: byte 8: ", "1 x 4 pixels", "2 x 2"}},
  });
}

TEST(WrongIdxDataTest, GzipFiles) {
  ExpectRefused({
      {IdxWithGz(kTrainImages, Gzip(TrainImages()).substr(0, 30)),
       {"DIR/train-images-idx3-ubyte.gz: byte 30: "}},
      {IdxWithGz(kTrainImages,
                 Gzip(TrainImages()).substr(0, 10) + "\xff\xff\xff"),
       {"DIR/train-images-idx3-ubyte.gz: byte ", "damaged"}},
      {IdxWithGz(kTrainLabels, IdxLabelsFile({1, 2})),
       {"DIR/train-labels-idx1-ubyte.gz: byte ", "header"}},
      {IdxWithGz(kTrainImages, Gzip(TrainImages() + std::string(1 << 24, '0'))),
       {"byte 24: ", "2 images"}},
  });
}

TEST(WrongIdxDataTest, JobsThatDoNotFit) {
  ExpectRefused({
      {IdxWith(kTestLabels, IdxLabelsFile({10})),
       {"DIR/t10k-labels-idx1-ubyte: byte 8: label 10; data.idx.classes: "}},
      {Set(IdxJob, "model.gpt={}"), {"data.idx: model.gpt "}},
      {Set(IdxJob, "model.loss=MEAN_SQUARED_ERROR"),
       {"model.loss: MEAN_SQUARED_ERROR", "data.idx"}},
      {Set(IdxJob, "data.idx.deviation=0"), {"data.idx.deviation: 0;"}},
  });
}

}  // namespace
}  // namespace tributary
