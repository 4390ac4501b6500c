// All the ways in which CSV data can be wrong.
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/wrong_data_fixture.h"

namespace tributary {
namespace {

MakeData Train(const std::string& bytes) {
  return With(CsvJob, "train.csv", bytes);
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

TEST(WrongCsvDataTest, FilesThatAreNone) {
  ExpectRefused({{Set(CsvJob, "data.csv.test=DIR/none"), {"DIR/none: "}}},
                absl::StatusCode::kNotFound);
  ExpectRefused({
      {Set(CsvJob, "data.csv.train=DIR"), {"DIR: "}},
      {Train(""), {"DIR/train.csv: is empty"}},
      {Train(" \n\n"), {"DIR/train.csv: ", "only blanks"}},
      {Train("a,b\n"), {"DIR/train.csv: ", "only a header"}},
      {Train("# a,b\n#\n"), {"DIR/train.csv: ", "only comments"}},
  });
}

TEST(WrongCsvDataTest, OtherFormats) {
  const std::string numpy("\x93NUMPY\x01\0v\0{'descr'", 18);
  const std::string utf16(
      "\xff\xfe"
      "1\0,\0",
      6);
  ExpectRefused({
      {Train(std::string("1,2,0\n\x01\0,4,1\n", 13)),
       {"DIR/train.csv: byte 7: ", "binary; data.csv "}},
      {Train(Repeated("1,2,0\n", 2000) + std::string("\x01\0,4,1\n", 7)),
       {"DIR/train.csv:2001: column 0", "'\\x01\\x00'"}},
      {Train(numpy),
       {"DIR/train.csv: is a NumPy array (.npy); data.csv ",
        "numpy.savetxt('data.csv', numpy.load('DIR/train.csv'), "
        "delimiter=',')"}},
      {Train("PK\x03\x04..."), {"DIR/train.csv: is a ZIP archive", "data.csv"}},
      {Train(Gzip("1,2,0\n")), {"DIR/train.csv: is gzip data", ".gz"}},
      {Train(utf16), {"DIR/train.csv: is UTF-16", "UTF-8"}},
  });
}

TEST(WrongCsvDataTest, Numbers) {
  ExpectRefused({
      {Train("1,2,0\n3,4x,1\n"), {"DIR/train.csv:2: column 1 ", "'4x'"}},
      {Train("1,2,0\n,4,1\n"), {"DIR/train.csv:2: column 0 ", "''"}},
      {Train("# x,y,kind\n1,2,0\n# more\n3,4x,1\n"),
       {"DIR/train.csv:4: column 1 ", "'4x'"}},
      {Train("\"1\",\"2\",\"0\"\n\"3\",\"4,5\",\"1\"\n"),
       {"DIR/train.csv:2: column 1 ", "'4,5'"}},
      {Train("1,2,0\n\"3\"4,5,1\n"),
       {"DIR/train.csv:2: column 0", "'\\\"3\\\"4'"}},
      {Train("1,2,0\n1,\"2,0\n3\",4,1\n"), {"DIR/train.csv:2: a quotation"}},
      {Train("1,inf,0\n"), {"DIR/train.csv:1: column 1", "'inf'", "finite"}},
      {Train("1,2,0\nnan,2,0\n"), {"DIR/train.csv:2: column 0", "'nan'"}},
      {Train("1,1e39,0\n"), {"DIR/train.csv:1: column 1", "'1e39'", "finite"}},
  });
}

TEST(WrongCsvDataTest, Lines) {
  ExpectRefused({
      {Train("1,2,0\n1,0\n"), {"DIR/train.csv:2: 2 columns", "have 3"}},
      {Train("1,2,0\n1\n"), {"DIR/train.csv:2: 1 column;", "have 3"}},
      {Train("1,2,0\n1,2,0,\n"), {"DIR/train.csv:2: 4 columns", "have 3"}},
      {Train("1,2,0\n\n1,2,1\n"), {"DIR/train.csv:2: ", "empty"}},
      {Train("1\n2\n"), {"DIR/train.csv:1: 1 column; a label"}},
      {Train("1,2,0\n" + std::string((16 << 20) + 1, '1')),
       {"DIR/train.csv:2: ", "16777216 bytes"}},
      {With(CsvJob, "test.csv", "1,0\n"),
       {"DIR/test.csv:1: 2 columns", "have 3"}},
  });
}

TEST(WrongCsvDataTest, Labels) {
  ExpectRefused({
      {Train("1,2,0\n1,2,0.5\n"),
       {"DIR/train.csv:2: label, column 2", "'0.5'"}},
      {Train("1,2,-1\n"), {"DIR/train.csv:1: label, column 2", "'-1'"}},
      {Train("1,2,16777216\n"), {"'16777216'", "from 0 to 16777215"}},
      {Set(Train("1,2,3\n"), "data.csv.classes=3"),
       {"DIR/train.csv:1: label, column 2", "'3'", "from 0 to 2"}},
      {With(CsvJob, "test.csv", "1,2,2\n"),
       {"DIR/test.csv:1: label, column 2", "'2'", "from 0 to 1"}},
      {Train("1,2,0\n3,4,0\n"), {"DIR/train.csv: all labels are 0"}},
      {Set(CsvJob, "data.csv.label_column=3"),
       {"DIR/train.csv:1: 3 columns; data.csv.label_column: 3 ", "-3 to 2"}},
      {Set(CsvJob, "data.csv.label_column=-4"),
       {"data.csv.label_column: -4 ", "-3 to 2"}},
      {Set(CsvJob, "data.csv.classes=-1"), {"data.csv.classes: -1;"}},
      {Set(CsvJob, "model.gpt={}"), {"data.csv: model.gpt "}},
  });
}

}  // namespace
}  // namespace tributary
