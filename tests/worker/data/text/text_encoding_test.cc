#include "worker/data/text/text_encoding.h"

#include <string>

#include "common/tokenizer/tokenizer_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/text_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TextEncodingTest, RestoresTokenizerAndClasses) {
  TextEncoding encoding;
  encoding.classes = {"good \"ones\"", "schlecht ü"};
  encoding.tokenizer_json = *WordPieceJson(*SmallTokenizer(), "field");
  const auto read = TextEncoding::FromJson(encoding.ToJson());
  ASSERT_EQ(read.status(), absl::OkStatus());
  EXPECT_EQ(read->classes, encoding.classes);
  const auto tokenizer = ParseTokenizerJson(read->tokenizer_json);
  ASSERT_EQ(tokenizer.status(), absl::OkStatus());
  EXPECT_EQ((*tokenizer)->vocabulary(), kTokens);
  EXPECT_THAT(*(*tokenizer)->Encode("A? b"),
              ElementsAre(kWord, kUnk, kWord + 1));
  EXPECT_EQ((*tokenizer)->ToJson(), encoding.tokenizer_json);
}

TEST(TextEncodingTest, KeepsTheOptionsOfTheTokenizer) {
  WordPieceOptions options;
  options.basic = {/*clean_text=*/false, /*chinese_characters=*/false,
                   /*strip_accents=*/false, /*lower_case=*/false};
  options.unknown = "<none>";
  options.prefix = "@@";
  options.max_characters = 7;
  const auto tokenizer = WordPieceTokenizer::Create(
      {"<none>", "A", "", "@@b", "\xe4\xb8\xad"}, options);
  ASSERT_EQ(tokenizer.status(), absl::OkStatus());
  const auto read = ParseTokenizerJson((*tokenizer)->ToJson());
  ASSERT_EQ(read.status(), absl::OkStatus());
  for (const char* text : {"Ab", "A b", "abbbbbbbb", "Abbbbbb", "Abbbbbbb",
                           "\xe4\xb8\xad\xe4\xb8\xad",
                           "\x01"
                           "A"}) {
    EXPECT_EQ(*(*read)->Encode(text), *(*tokenizer)->Encode(text)) << text;
  }
}

TEST(TextEncodingTest, SaysWhatIsWrong) {
  const auto wrong = [](const std::string& json) {
    return TextEncoding::FromJson(json).status();
  };
  const auto invalid = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
  };
  EXPECT_THAT(wrong("x"), invalid("it is no JSON object"));
  EXPECT_THAT(wrong("{\"format\": \"tributary-csv-1\"}"),
              invalid("its format is not tributary-text-1"));
  EXPECT_THAT(wrong("{\"format\": \"tributary-text-1\", \"classes\": [1]}"),
              invalid("`classes` must be a list of names"));
  EXPECT_THAT(wrong("{\"format\": \"tributary-text-1\", \"classes\": []}"),
              invalid("`tokenizer` must be a JSON object"));
}

}  // namespace
}  // namespace tributary
