#include "worker/data/text/labeled_texts.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

auto Invalid(const std::string& part) {
  return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
}

absl::StatusOr<LabeledTexts> Parse(const std::string& bytes,
                                   const std::string& path = "a.csv") {
  return ParseLabeledTexts(LabeledTextSpec(), /*needs_labels=*/true, path,
                           bytes);
}

TEST(LabeledTextsTest, ReadsQuotesLineEndsAndMarks) {
  const auto texts = Parse(
      "\xef\xbb\xbf"
      "id, text ,label\r\n"
      "1,plain \"text\", x \r\n"
      "\r\n"
      "2,\"comma, \"\"quotes\"\"\r\nand\nlines\",y\n"
      "3,\xc3\xbc,z");
  ASSERT_EQ(texts.status(), absl::OkStatus());
  EXPECT_THAT(texts->texts,
              ElementsAre("plain \"text\"", "comma, \"quotes\"\r\nand\nlines",
                          "\xc3\xbc"));
  EXPECT_THAT(texts->labels, ElementsAre("x", "y", "z"));
  EXPECT_THAT(texts->lines, ElementsAre(2, 4, 7));
  EXPECT_THAT(texts->seconds, IsEmpty());
}

TEST(LabeledTextsTest, TabsSeparateTheColumnsOfTsvFiles) {
  const auto texts = Parse("text\tlabel\na, b\tx\n\"c\td\"\ty\n", "a.tsv");
  ASSERT_EQ(texts.status(), absl::OkStatus());
  EXPECT_THAT(texts->texts, ElementsAre("a, b", "c\td"));
}

TEST(LabeledTextsTest, ReadsPairs) {
  LabeledTextSpec spec;
  spec.set_text_column("question");
  spec.set_second_text_column("answer");
  spec.set_label_column("fits");
  const auto texts = ParseLabeledTexts(spec, /*needs_labels=*/true, "a.csv",
                                       "fits,answer,question\n1,b,a\n0,d,c\n");
  ASSERT_EQ(texts.status(), absl::OkStatus());
  EXPECT_THAT(texts->texts, ElementsAre("a", "c"));
  EXPECT_THAT(texts->seconds, ElementsAre("b", "d"));
  EXPECT_THAT(texts->labels, ElementsAre("1", "0"));
}

TEST(LabeledTextsTest, SaysWhereAFileIsWrong) {
  EXPECT_THAT(Parse("").status(), Invalid("a.csv: has no lines"));
  EXPECT_THAT(Parse("text,label\n").status(), Invalid("a.csv: has no rows"));
  EXPECT_THAT(Parse("sentence,label\nx,1\n").status(),
              Invalid("a.csv:1: there is no column \"text\", which "
                      "data.labeled_text.text_column names; the file has the "
                      "columns \"sentence\", \"label\""));
  EXPECT_THAT(Parse("text,text,label\nx,y,1\n").status(),
              Invalid("a.csv:1: two columns have the name \"text\""));
  EXPECT_THAT(Parse("text,label\n\"a\nb\",1\nx\n").status(),
              Invalid("a.csv:4: has 1 column, expected 2"));
  EXPECT_THAT(Parse("text,label\nx,1\n\"y,2\n").status(),
              Invalid("a.csv:3: a quotation mark has no counterpart"));
  EXPECT_THAT(Parse("text,label\n\"x\" y,1\n").status(),
              Invalid("a.csv:2: after the closing quotation mark of \"x\" "
                      "comes \" y,1"));
  EXPECT_THAT(Parse("text,label\nx,1\n ,2\n").status(),
              Invalid("a.csv:3: column \"text\" is empty"));
  EXPECT_THAT(Parse("text,label\nx, \n").status(),
              Invalid("a.csv:2: the label is empty"));
  EXPECT_THAT(Parse("text,label\nx,\x01\n").status(),
              Invalid("the label \"\\x01\" is not text in UTF-8"));
  EXPECT_THAT(Parse(std::string("te\0xt", 5)).status(),
              Invalid("a.csv: is binary"));
  EXPECT_THAT(Parse("PK\x03\x04").status(), Invalid("a ZIP archive"));
}

TEST(LabeledTextsTest, ClassesAreOrderedByNumberOrByBytes) {
  const auto classes = [](const std::vector<std::string>& labels) {
    LabeledTexts texts;
    texts.path = "a.csv";
    texts.labels = labels;
    return ClassesOfTexts(texts);
  };
  EXPECT_THAT(*classes({"10", "9", "-1", "9"}), ElementsAre("-1", "9", "10"));
  EXPECT_THAT(*classes({"b", "10", "9"}), ElementsAre("10", "9", "b"));
  EXPECT_THAT(classes({"b", "b"}).status(),
              Invalid("a.csv: all labels are \"b\"; at least 2 classes"));
}

TEST(LabeledTextsTest, UnknownLabelsAreErrors) {
  const auto texts = Parse("text,label\nx,b\ny,c\n");
  ASSERT_EQ(texts.status(), absl::OkStatus());
  EXPECT_THAT(*NumberLabels(*texts, {"a", "b", "c"}), ElementsAre(1, 2));
  EXPECT_THAT(NumberLabels(*texts, {"a", "b"}).status(),
              Invalid("a.csv:3: the label \"c\" does not occur in the training "
                      "file, whose labels are \"a\", \"b\""));
}

TEST(LabeledTextsTest, ReadsTextsWithoutLabels) {
  DataFolder folder;
  LabeledTextSpec spec;
  const auto table =
      ReadTextsToPredict(spec, folder.Write("a.csv", "text\nx\n\"y\nz\"\n"));
  ASSERT_EQ(table.status(), absl::OkStatus());
  EXPECT_THAT(table->texts, ElementsAre("x", "y\nz"));
  EXPECT_THAT(table->labels, IsEmpty());
  const std::string lines = folder.Write("a.txt", "x, \"y\"\r\nz\n");
  EXPECT_THAT(ReadTextsToPredict(spec, lines)->texts,
              ElementsAre("x, \"y\"", "z"));
  EXPECT_THAT(
      ReadTextsToPredict(spec, folder.Write("b.txt", "x\n\ny\n")).status(),
      Invalid("b.txt:2: the line is empty"));
  spec.set_second_text_column("second");
  EXPECT_THAT(ReadTextsToPredict(spec, lines).status(),
              Invalid("the model classifies pairs of texts; pass a CSV or TSV "
                      "file with the columns \"text\" and \"second\""));
}

}  // namespace
}  // namespace tributary
