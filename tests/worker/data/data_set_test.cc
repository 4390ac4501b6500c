// The factory, and all the ways in which data can be wrong.
#include "worker/data/data_set.h"

#include <unistd.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/data_test_util.h"

namespace tributary {
namespace {

using testing::HasSubstr;

constexpr char kTrainImages[] = "train-images-idx3-ubyte";
constexpr char kTrainLabels[] = "train-labels-idx1-ubyte";
constexpr char kTestImages[] = "t10k-images-idx3-ubyte";
constexpr char kTestLabels[] = "t10k-labels-idx1-ubyte";

// Jobs on good data of each kind, for a test to spoil.
JobSpec IdxJob(const DataFolder& folder) {
  folder.Write(kTrainImages, IdxImagesFile(2, 2, 2, "12345678"));
  folder.Write(kTrainLabels, IdxLabelsFile({9, 0}));
  folder.Write(kTestImages, IdxImagesFile(1, 2, 2, "abcd"));
  folder.Write(kTestLabels, IdxLabelsFile({3}));
  JobSpec job;
  job.mutable_model()->mutable_mlp();
  job.mutable_data()->mutable_idx()->set_directory(folder.path());
  return job;
}

JobSpec CsvJob(const DataFolder& folder) {
  JobSpec job;
  job.mutable_model()->mutable_mlp();
  CsvSpec* csv = job.mutable_data()->mutable_csv();
  csv->set_train(folder.Write("train.csv", "x,y,kind\n1,2,0\n3,4,1\n"));
  csv->set_test(folder.Write("test.csv", "5,6,1\n"));
  return job;
}

JobSpec TextJob(const DataFolder& folder) {
  JobSpec job;
  job.mutable_model()->mutable_gpt()->set_context(4);
  job.mutable_data()->mutable_text()->add_path(
      folder.Write("text", std::string(50, 'x')));
  return job;
}

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

struct WrongData {
  std::string name;
  // Makes the files and the job.
  std::function<JobSpec(const DataFolder&)> make;
  absl::StatusCode code;
  // All of them are in the message; `DIR` stands for the folder.
  std::vector<std::string> pieces;
};

void PrintTo(const WrongData& test, std::ostream* stream) {
  *stream << test.name;
}

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

std::function<JobSpec(const DataFolder&)> CsvWith(const std::string& file,
                                                  const std::string& bytes) {
  return [file, bytes](const DataFolder& folder) {
    const JobSpec job = CsvJob(folder);
    folder.Write(file, bytes);
    return job;
  };
}

std::function<JobSpec(const DataFolder&)> TextWith(const std::string& bytes) {
  return [bytes](const DataFolder& folder) {
    const JobSpec job = TextJob(folder);
    folder.Write("text", bytes);
    return job;
  };
}

// A good job of some kind, with a change.
template <typename Make, typename Change>
std::function<JobSpec(const DataFolder&)> Changed(Make make, Change change) {
  return [make, change](const DataFolder& folder) {
    JobSpec job = make(folder);
    change(folder, &job);
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
        "images its header promises it would be 24 bytes long"}},
      {"IdxLabelsCut",
       IdxWith(kTrainLabels, IdxLabelsFile({1, 2}).substr(0, 9)),
       kInvalid,
       {"byte 9: the file ends; with the 2 labels"}},
      {"IdxTooLong",
       IdxWith(kTrainImages, images + "more"),
       kInvalid,
       {"byte 24: the file goes on after the 2 images its header promises"}},
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
       {"byte 24: the file goes on after the 2 images"}},
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

std::vector<WrongData> WrongCsv() {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  return {
      {"CsvMissing",
       Changed(CsvJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_csv()->set_test(
                     folder.PathOf("none"));
               }),
       kNotFound,
       {"DIR/none: cannot open: No such file or directory"}},
      {"CsvIsAFolder",
       Changed(CsvJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_csv()->set_train(folder.path());
               }),
       kInvalid,
       {"DIR: cannot read: Is a directory"}},
      {"CsvEmpty",
       CsvWith("train.csv", ""),
       kInvalid,
       {"DIR/train.csv: is empty"}},
      {"CsvBlank",
       CsvWith("train.csv", " \n\n"),
       kInvalid,
       {"DIR/train.csv: holds no samples, only blanks"}},
      {"CsvOnlyAHeader",
       CsvWith("train.csv", "a,b\n"),
       kInvalid,
       {"DIR/train.csv: holds no samples, only a header"}},
      {"CsvNotANumber",
       CsvWith("train.csv", "1,2,0\n3,4x,1\n"),
       kInvalid,
       {"DIR/train.csv:2: column 1 (counted from 0): '4x' is not a number"}},
      {"CsvNoNumber",
       CsvWith("train.csv", "1,2,0\n,4,1\n"),
       kInvalid,
       {"DIR/train.csv:2: column 0 (counted from 0): '' is not a number"}},
      {"CsvBinary",
       CsvWith("train.csv", std::string("1,2,0\n\x01\0,4,1\n", 13)),
       kInvalid,
       {"DIR/train.csv:2: column 0", "'\\x01\\x00' is not a number"}},
      {"CsvInfinite",
       CsvWith("train.csv", "1,inf,0\n"),
       kInvalid,
       {"DIR/train.csv:1: column 1", "'inf' is not a finite"}},
      {"CsvNotANumberByName",
       CsvWith("train.csv", "1,2,0\nnan,2,0\n"),
       kInvalid,
       {"DIR/train.csv:2: column 0", "'nan' is not a finite"}},
      {"CsvTooLargeForAFloat",
       CsvWith("train.csv", "1,1e39,0\n"),
       kInvalid,
       {"DIR/train.csv:1: column 1", "'1e39' is not a finite"}},
      {"CsvShortLine",
       CsvWith("train.csv", "1,2,0\n1,0\n"),
       kInvalid,
       {"DIR/train.csv:2: 2 columns; the lines before have 3"}},
      {"CsvLongLine",
       CsvWith("train.csv", "1,2,0\n1,2,0,\n"),
       kInvalid,
       {"DIR/train.csv:2: 4 columns; the lines before have 3"}},
      {"CsvEmptyLine",
       CsvWith("train.csv", "1,2,0\n\n1,2,1\n"),
       kInvalid,
       {"DIR/train.csv:2: the line is empty"}},
      {"CsvOneColumn",
       CsvWith("train.csv", "1\n2\n"),
       kInvalid,
       {"DIR/train.csv:1: 1 column; a label and at least one more"}},
      {"CsvLineTooLong",
       CsvWith("train.csv", "1,2,0\n" + std::string((16 << 20) + 1, '1')),
       kInvalid,
       {"DIR/train.csv:2: a line of 16777217 bytes; at most 16777216"}},
      {"CsvLabelFraction",
       CsvWith("train.csv", "1,2,0\n1,2,0.5\n"),
       kInvalid,
       {"DIR/train.csv:2: label, column 2", "'0.5' is not a class"}},
      {"CsvLabelNegative",
       CsvWith("train.csv", "1,2,-1\n"),
       kInvalid,
       {"DIR/train.csv:1: label, column 2", "'-1' is not a class"}},
      {"CsvLabelTooLarge",
       CsvWith("train.csv", "1,2,16777216\n"),
       kInvalid,
       {"'16777216' is not a class: an integer from 0 to 16777215"}},
      {"CsvLabelNotBelowClasses",
       Changed(CsvJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_csv()->set_classes(3);
                 folder.Write("train.csv", "1,2,3\n");
               }),
       kInvalid,
       {"DIR/train.csv:1: label, column 2", "'3' is not a class",
        "from 0 to 2"}},
      {"CsvTestLabelNeverTrained",
       CsvWith("test.csv", "1,2,2\n"),
       kInvalid,
       {"DIR/test.csv:1: label, column 2", "'2' is not a class",
        "from 0 to 1"}},
      {"CsvOneClass",
       CsvWith("train.csv", "1,2,0\n3,4,0\n"),
       kInvalid,
       {"DIR/train.csv: all 2 labels are 0"}},
      {"CsvTestColumnsDiffer",
       CsvWith("test.csv", "1,0\n"),
       kInvalid,
       {"DIR/test.csv:1: 2 columns; the training data have 3"}},
      {"CsvLabelColumnOutside",
       Changed(CsvJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_csv()->set_label_column(3);
               }),
       kInvalid,
       {"DIR/train.csv:1: 3 columns; data.csv.label_column: 3 must be from -3 "
        "to 2"}},
      {"CsvLabelColumnOutsideFromTheEnd",
       Changed(CsvJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_csv()->set_label_column(-4);
               }),
       kInvalid,
       {"data.csv.label_column: -4 must be from -3 to 2"}},
      {"CsvClassesNegative",
       Changed(CsvJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_csv()->set_classes(-1);
               }),
       kInvalid,
       {"data.csv.classes: -1; must be from 0"}},
      {"CsvForGpt",
       Changed(CsvJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_model()->mutable_gpt();
               }),
       kInvalid,
       {"data.csv: model.gpt learns from text"}},
  };
}

std::vector<WrongData> WrongText() {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  constexpr auto kNotFound = absl::StatusCode::kNotFound;
  return {
      {"TextMissing",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->add_path(
                     folder.PathOf("none"));
               }),
       kNotFound,
       {"DIR/none: cannot open: No such file or directory"}},
      {"TextNotNamed",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_text()->clear_path();
               }),
       kInvalid,
       {"data.text.path: must name at least one file"}},
      {"TextEmpty", TextWith(""), kInvalid, {"DIR/text: is empty"}},
      {"TextTooShortToTrain",
       TextWith("12345678"),
       kInvalid,
       {"DIR/text: 8 bytes are too short", "7 are left for training",
        "model.gpt.context 4 needs at least 8"}},
      {"TextTooShortToEvaluate",
       TextWith("123456789"),
       kInvalid,
       {"DIR/text: 9 bytes are too short", "1 are held out"}},
      {"TextGzCut",
       Changed(TextJob,
               [](const DataFolder& folder, JobSpec* job) {
                 job->mutable_data()->mutable_text()->set_path(
                     0,
                     folder.Write("text.gz", Gzip("some text").substr(0, 20)));
               }),
       kInvalid,
       {"DIR/text.gz: byte 20: gzip data end too early"}},
      {"TextFractionOne",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_data()->mutable_text()->set_validation_fraction(
                     1);
               }),
       kInvalid,
       {"data.text.validation_fraction: 1; must be above 0 and below 1"}},
      {"TextForMlp",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_model()->mutable_mlp();
               }),
       kInvalid,
       {"data.text: text is for model.gpt"}},
      {"TextForRegression",
       Changed(TextJob,
               [](const DataFolder&, JobSpec* job) {
                 job->mutable_model()->set_loss(ModelSpec::MEAN_SQUARED_ERROR);
               }),
       kInvalid,
       {"model.loss: MEAN_SQUARED_ERROR", "data.text"}},
      {"NoData",
       [](const DataFolder&) { return JobSpec(); },
       kInvalid,
       {"data: must set one of idx, csv, text and random"}},
  };
}

class WrongDataTest : public testing::TestWithParam<WrongData> {};

TEST_P(WrongDataTest, IsRefusedWithItsReason) {
  const DataFolder folder;
  const auto data = OpenDataSet(GetParam().make(folder));
  EXPECT_EQ(data.status().code(), GetParam().code) << data.status();
  for (std::string piece : GetParam().pieces) {
    for (size_t at; (at = piece.find("DIR")) != std::string::npos;) {
      piece.replace(at, 3, folder.path());
    }
    EXPECT_THAT(std::string(data.status().message()), HasSubstr(piece));
  }
}

std::string NameOf(const testing::TestParamInfo<WrongData>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Idx, WrongDataTest, testing::ValuesIn(WrongIdx()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Csv, WrongDataTest, testing::ValuesIn(WrongCsv()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Text, WrongDataTest, testing::ValuesIn(WrongText()),
                         NameOf);

}  // namespace
}  // namespace tributary
