// All the ways in which CSV data can be wrong.
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"

namespace tributary {
namespace {

std::function<JobSpec(const DataFolder&)> CsvWith(const std::string& file,
                                                  const std::string& bytes) {
  return [file, bytes](const DataFolder& folder) {
    const JobSpec job = CsvJob(folder);
    folder.Write(file, bytes);
    return job;
  };
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
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
       {"DIR/train.csv: byte 7: is 0, so the file is binary; data.csv reads "
        "lines of text with columns"}},
      {"CsvDamagedFarFromTheBegin",
       CsvWith("train.csv",
               Repeated("1,2,0\n", 2000) + std::string("\x01\0,4,1\n", 7)),
       kInvalid,
       {"DIR/train.csv:2001: column 0", "'\\x01\\x00' is not a number"}},
      {"CsvNumpyArray",
       CsvWith("train.csv", std::string("\x93NUMPY\x01\0v\0{'descr'", 18)),
       kInvalid,
       {"DIR/train.csv: is a NumPy array (.npy); data.csv reads lines of "
        "text with columns: convert it in Python with "
        "numpy.savetxt('data.csv', numpy.load('DIR/train.csv'), "
        "delimiter=',')"}},
      {"CsvZipArchive",
       CsvWith("train.csv", "PK\x03\x04..."),
       kInvalid,
       {"DIR/train.csv: is a ZIP archive, as .npz and .xlsx are; data.csv",
        "save its table as CSV"}},
      {"CsvCompressedWithoutGz",
       CsvWith("train.csv", Gzip("1,2,0\n")),
       kInvalid,
       {"DIR/train.csv: is gzip data; data.csv", "its name ends in .gz"}},
      {"CsvUtf16",
       CsvWith("train.csv", std::string("\xff\xfe"
                                        "1\0,\0",
                                        6)),
       kInvalid,
       {"DIR/train.csv: is UTF-16 text; data.csv", "save it as UTF-8"}},
      {"CsvOnlyComments",
       CsvWith("train.csv", "# a,b\n#\n"),
       kInvalid,
       {"DIR/train.csv: holds no samples, only comments"}},
      {"CsvCommentsCountAsLines",
       CsvWith("train.csv", "# x,y,kind\n1,2,0\n# more\n3,4x,1\n"),
       kInvalid,
       {"DIR/train.csv:4: column 1 (counted from 0): '4x' is not a number"}},
      {"CsvQuotedNotANumber",
       CsvWith("train.csv", "\"1\",\"2\",\"0\"\n\"3\",\"4,5\",\"1\"\n"),
       kInvalid,
       {"DIR/train.csv:2: column 1 (counted from 0): '4,5' is not a number"}},
      {"CsvTextAfterAQuotedNumber",
       CsvWith("train.csv", "1,2,0\n\"3\"4,5,1\n"),
       kInvalid,
       {"DIR/train.csv:2: column 0", "'\\\"3\\\"4' is not a number"}},
      {"CsvQuoteNotClosed",
       CsvWith("train.csv", "1,2,0\n1,\"2,0\n3\",4,1\n"),
       kInvalid,
       {"DIR/train.csv:2: a quotation mark is not closed on this line"}},
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
      {"CsvLineOfOneColumn",
       CsvWith("train.csv", "1,2,0\n1\n"),
       kInvalid,
       {"DIR/train.csv:2: 1 column; the lines before have 3"}},
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
       {"DIR/train.csv:2: a line of more than 16777216 bytes"}},
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
       {"DIR/train.csv: all labels are 0, in 2 rows; at least 2 classes"}},
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

using WrongCsvDataTest = WrongDataTest;

TEST_P(WrongCsvDataTest, IsRefusedWithItsReason) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Csv, WrongCsvDataTest, testing::ValuesIn(WrongCsv()),
                         WrongDataTest::NameOf);

}  // namespace
}  // namespace tributary
