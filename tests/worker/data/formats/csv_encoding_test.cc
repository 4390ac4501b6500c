#include "worker/data/formats/csv_encoding.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/data/formats/csv_format.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;
using testing::IsEmpty;

// Columns: a number, a category, a number, the label.
constexpr absl::string_view kTrain =
    "size,color,age,kind\n1,red,10,0\n3,\"blue, dark\",10,1\n5,red,10,1\n";

CsvOptions Options(std::vector<int32_t> categories) {
  CsvOptions options;
  options.category_columns = std::move(categories);
  return options;
}

CsvTable Parse(absl::string_view bytes, const CsvOptions& options) {
  auto table = ParseCsv(bytes, options, "FILE");
  EXPECT_EQ(table.status(), absl::OkStatus());
  return table.ok() ? *std::move(table) : CsvTable();
}

// Returns the table with its features.
CsvTable Encoded(const CsvEncoding& encoding, absl::string_view bytes,
                 const CsvOptions& options) {
  CsvTable table = Parse(bytes, options);
  EXPECT_EQ(encoding.Encode("FILE", &table), absl::OkStatus());
  return table;
}

TEST(CsvEncodingTest, CategoriesBecomeOneFeaturePerValueInTheOrderOfBytes) {
  const CsvOptions options = Options({1});
  const CsvTable train = Parse(kTrain, options);
  const CsvEncoding encoding = CsvEncoding::Learn(train, false);
  EXPECT_EQ(encoding.features(), 4);
  EXPECT_THAT(encoding.classes(), IsEmpty());
  // size, color is "blue, dark", color is red, age.
  const CsvTable table = Encoded(encoding, kTrain, options);
  EXPECT_EQ(table.features, 4);
  EXPECT_THAT(table.cells, ElementsAre(1, 0, 1, 10, 3, 1, 0, 10, 5, 0, 1, 10));
  EXPECT_THAT(table.labels, ElementsAre(0, 1, 1));
}

TEST(CsvEncodingTest, StandardizesWithMeanAndDeviationOfTheTrainingPart) {
  const CsvOptions options = Options({1});
  const CsvEncoding encoding = CsvEncoding::Learn(Parse(kTrain, options), true);
  // Mean 3, population variance 8/3. The constant column becomes 0.
  const auto scaled = static_cast<float>((7.0 - 3.0) / std::sqrt(8.0 / 3.0));
  const CsvTable table = Encoded(encoding, "7,red,10,0\n", options);
  EXPECT_THAT(table.cells, ElementsAre(scaled, 0, 1, 0));
  EXPECT_THAT(Encoded(encoding, "3,red,12,0\n", options).cells,
              ElementsAre(0, 0, 1, 2));
}

TEST(CsvEncodingTest, LabelsMayBeCategories) {
  const CsvOptions options = Options({0, -1});
  const absl::string_view bytes = "color,size,kind\nred,1,cat\nblue,2,dog\n";
  const CsvEncoding encoding = CsvEncoding::Learn(Parse(bytes, options), false);
  EXPECT_THAT(encoding.classes(), ElementsAre("cat", "dog"));
  const CsvTable table = Encoded(encoding, bytes, options);
  EXPECT_THAT(table.cells, ElementsAre(0, 1, 1, 1, 0, 2));
  EXPECT_THAT(table.labels, ElementsAre(0, 1));
}

TEST(CsvEncodingTest, EncodesFilesWithoutTheLabel) {
  const CsvOptions train = Options({1, 0});
  const CsvEncoding encoding =
      CsvEncoding::Learn(Parse("a,red,0\nb,blue,1\n", train), false);
  CsvOptions options = Options(encoding.CategoryColumns(/*labeled=*/false));
  options.labeled = false;
  EXPECT_THAT(options.category_columns, ElementsAre(0, 1));
  EXPECT_EQ(encoding.columns(), 3);
  const CsvTable table = Encoded(encoding, "x,y\nb,red\n", options);
  EXPECT_THAT(table.cells, ElementsAre(0, 1, 0, 1));
}

TEST(CsvEncodingTest, NamesTheLineOfAnUnknownCategory) {
  const CsvOptions options = Options({1});
  const CsvEncoding encoding =
      CsvEncoding::Learn(Parse(kTrain, options), false);
  CsvTable table = Parse("# test\n1,red,10,0\n1,green,10,0\n", options);
  EXPECT_THAT(
      encoding.Encode("test.csv", &table),
      StatusIs(
          absl::StatusCode::kInvalidArgument,
          HasSubstr(
              "test.csv:3: column 1 (counted from 0): the category 'green'")));
}

TEST(CsvEncodingTest, FeaturesThatNeedTooMuchMemoryAreAnError) {
  const CsvOptions options = Options({1});
  CsvTable table = Parse(kTrain, options);
  const CsvEncoding encoding = CsvEncoding::Learn(table, false);
  table.rows = int64_t{1} << 33;
  EXPECT_THAT(encoding.Encode("FILE", &table),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("FILE: 8589934592 rows of 4 features")));
}

TEST(CsvEncodingTest, ANumberTooFarFromTheMeanIsAnError) {
  const CsvOptions options = Options({});
  const CsvEncoding encoding =
      CsvEncoding::Learn(Parse("1e-30,0\n2e-30,1\n", options), true);
  CsvTable table = Parse("1e30,0\n", options);
  EXPECT_THAT(encoding.Encode("test.csv", &table),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("training data's mean")));
}

TEST(CsvEncodingTest, IsTheSameAfterItWasStored) {
  const CsvOptions options = Options({1});
  const absl::string_view train =
      "0.1,\"say \"\"\xc3\xa4\"\"\",3,0\n0.7,b,1e-7,1\n0.3,b,5,1\n";
  const CsvEncoding encoding = CsvEncoding::Learn(Parse(train, options), true);
  const auto stored = CsvEncoding::FromJson(encoding.ToJson());
  ASSERT_EQ(stored.status(), absl::OkStatus());
  EXPECT_EQ(stored->ToJson(), encoding.ToJson());
  EXPECT_EQ(Encoded(*stored, train, options).cells,
            Encoded(encoding, train, options).cells);
  EXPECT_THAT(encoding.ToJson(), HasSubstr("say \\\"\xc3\xa4\\\""));
}

TEST(CsvEncodingTest, StoresColumnsThatAreLeftOutAndTheTransformation) {
  CsvOptions options = Options({3});
  options.ignored_columns = {1};
  options.log_transform = true;
  const absl::string_view train = "0,?,0,x,0\n3,,7,y,1\n";
  const CsvTable table = Parse(train, options);
  EXPECT_THAT(table.left_out, ElementsAre(1));
  const auto stored =
      CsvEncoding::FromJson(CsvEncoding::Learn(table, false).ToJson());
  ASSERT_EQ(stored.status(), absl::OkStatus());
  EXPECT_TRUE(stored->log_transform());
  EXPECT_EQ(stored->features(), 4);
  EXPECT_THAT(stored->LeftOutColumns(/*labeled=*/true), ElementsAre(1));
  // A file without the label is read as the training file was.
  CsvOptions unlabeled = Options(stored->CategoryColumns(/*labeled=*/false));
  unlabeled.labeled = false;
  unlabeled.ignored_columns = stored->LeftOutColumns(/*labeled=*/false);
  unlabeled.log_transform = stored->log_transform();
  EXPECT_THAT(
      Encoded(*stored, "3,!,7,y\n", unlabeled).cells,
      ElementsAre(FloatEq(std::log(4.f)), FloatEq(std::log(8.f)), 0, 1));
}

TEST(CsvEncodingTest, RefusesWhatItHasNotWritten) {
  for (const absl::string_view json :
       {"", "[]", "{}", R"({"format": "tributary-csv-1"})",
        R"({"format":"tributary-csv-1","label":2,"columns":[{},{}]})",
        R"({"format":"tributary-csv-1","label":0,"columns":[{},1]})",
        R"({"format":"tributary-csv-1","label":0,"columns":[{},{"mean":1}]})",
        R"({"format":"tributary-csv-1","label":0,
            "columns":[{},{"mean":1,"deviation":0}]})",
        R"({"format":"tributary-csv-1","label":0,
            "columns":[{},{"categories":["b","a"]}]})",
        R"({"format":"tributary-csv-1","label":0,
            "columns":[{},{"categories":[]}]})",
        R"({"format":"tributary-csv-1","label":0,
            "columns":[{},{"left_out":false}]})",
        R"({"format":"tributary-csv-1","label":0,"columns":[{},{}],
            "log_transform":1})",
        R"({"format":"tributary-csv-1","label":-1,"columns":[{},{}]})"}) {
    SCOPED_TRACE(json);
    EXPECT_THAT(CsvEncoding::FromJson(json).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("data.csv is damaged")));
  }
}

TEST(CsvCategoriesTest, AreReadWithAnyDelimiter) {
  CsvOptions options = Options({0, 1});
  options.delimiter = '\t';
  const CsvTable table =
      Parse("a, b\t\"x\ty\"\t1\nc\tx\t0\na, b\tx\t0\n", options);
  ASSERT_EQ(table.categories.size(), 2);
  EXPECT_THAT(table.categories[0].values, ElementsAre("a, b", "c"));
  EXPECT_THAT(table.categories[0].cells, ElementsAre(0, 1, 0));
  EXPECT_THAT(table.categories[1].values, ElementsAre("x\ty", "x"));
  EXPECT_THAT(table.categories[1].first_lines, ElementsAre(1, 2));
  EXPECT_THAT(table.labels, ElementsAre(1, 0, 0));
}

TEST(CsvCategoriesTest, AFileOfCategoriesBeginsWithAHeader) {
  const CsvTable table =
      Parse("color,kind\nred,cat\nblue,dog\n", Options({0, 1}));
  EXPECT_EQ(table.rows, 2);
  EXPECT_THAT(table.categories[0].values, ElementsAre("red", "blue"));
}

TEST(CsvCategoriesTest, ErrorsNameLineAndColumn) {
  const auto error = [](absl::string_view bytes, std::vector<int32_t> columns) {
    return ParseCsv(bytes, Options(std::move(columns)), "FILE").status();
  };
  EXPECT_THAT(error("a,1\n,1\n", {0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "FILE:2: column 0 (counted from 0): '' has no "
                       "category"));
  EXPECT_THAT(
      error("a,1\n\xff,1\n", {0}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("FILE:2: column 0 (counted from 0): '\\xff'")));
  EXPECT_THAT(error("a,1\n", {2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "FILE:1: 2 columns; data.csv.category_column: 2 must "
                       "be from -2 to 1"));
  EXPECT_THAT(error("a,1\n", {0, -2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("FILE:1: data.csv.category_column: -2")));
  EXPECT_THAT(error("a,b,1\na,c,1\n", {0}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("FILE:2: column 1 (counted from 0): 'c'")));
}

TEST(CsvCategoriesTest, CountsColumnsOfTheFirstLineThatIsNoComment) {
  EXPECT_EQ(CountCsvColumns("# a,b\n\n\"1,5\",2,3\n4\n", ','), 3);
  EXPECT_EQ(CountCsvColumns("# a,b\n", ','), 0);
}

}  // namespace
}  // namespace tributary
