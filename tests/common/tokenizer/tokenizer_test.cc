#include "common/tokenizer/tokenizer.h"

#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/os/file.h"
#include "common/tokenizer/gpt2_pattern.h"
#include "common/tokenizer/open_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Golden(const std::string& name) {
  return absl::StrCat("tests/common/tokenizer/golden/", name);
}

std::string Read(const std::string& path) {
  return ReadFile(path, 1 << 20).value();
}

// Writes a file for this test, and returns its path.
std::string Write(const std::string& name, const std::string& bytes) {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::vector<int32_t> GoldenIds(const std::string& name) {
  std::vector<int32_t> ids;
  const std::string text = Read(Golden(name));
  for (const absl::string_view line :
       absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ids.push_back(0);
    EXPECT_TRUE(absl::SimpleAtoi(line, &ids.back()));
  }
  return ids;
}

std::unique_ptr<Tokenizer> Open(const std::string& path) {
  auto tokenizer = OpenTokenizer(path);
  EXPECT_EQ(tokenizer.status(), absl::OkStatus());
  return *std::move(tokenizer);
}

class Golds : public testing::TestWithParam<std::string> {};

TEST_P(Golds, HasTheIdsOfHuggingFaceTokenizers) {
  const auto tokenizer = Open(Golden(GetParam() + ".json"));
  const auto ids = tokenizer->Encode(Read(Golden("text")));
  ASSERT_EQ(ids.status(), absl::OkStatus());
  EXPECT_EQ(*ids, GoldenIds(GetParam() + ".ids"));
}

TEST_P(Golds, PartsBetweenSafeSplitsHaveTheIdsOfTheWholeText) {
  const auto tokenizer = Open(Golden(GetParam() + ".json"));
  const std::string text = Read(Golden("text"));
  std::vector<int32_t> ids;
  int parts = 0;
  for (absl::string_view rest = text; !rest.empty(); ++parts) {
    const size_t bytes = SafeSplit(rest, 1);
    const auto part = tokenizer->Encode(rest.substr(0, bytes));
    ids.insert(ids.end(), part->begin(), part->end());
    rest.remove_prefix(bytes);
  }
  EXPECT_GT(parts, 50);
  EXPECT_EQ(ids, GoldenIds(GetParam() + ".ids"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Golds,
                         testing::Values("byte_pairs", "word_pieces"),
                         [](const auto& info) { return info.param; });

TEST(BytePairTokenizerTest, DecodesAnyBytesToThemselves) {
  const auto tokenizer = Open(Golden("byte_pairs.json"));
  std::mt19937 draw(1);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(draw() % 300, '\0');
    // Few different bytes make merges and runs; many, invalid UTF-8.
    const uint32_t kinds = i % 2 == 0 ? 256 : 4;
    for (char& byte : bytes) byte = static_cast<char>(draw() % kinds + 32);
    const auto ids = tokenizer->Encode(bytes);
    ASSERT_EQ(ids.status(), absl::OkStatus());
    EXPECT_EQ(*tokenizer->Decode(*ids), bytes);
  }
}

TEST(BytePairTokenizerTest, TextOfASpecialTokenIsOrdinaryText) {
  const auto tokenizer = Open(Golden("byte_pairs.json"));
  const int32_t end = *tokenizer->Special(SpecialToken::kEndOfText);
  EXPECT_EQ(end, 0);
  EXPECT_EQ(tokenizer->vocabulary(), 500);
  const auto ids = tokenizer->Encode("<|endoftext|>");
  EXPECT_THAT(*ids, testing::Not(testing::Contains(end)));
  EXPECT_EQ(*tokenizer->Decode({end}), "<|endoftext|>");
  EXPECT_EQ(tokenizer->Special(SpecialToken::kMask), absl::nullopt);
}

TEST(BytePairTokenizerTest, AnUnknownIdIsAnError) {
  const auto tokenizer = Open(Golden("byte_pairs.json"));
  for (const int32_t id : {-1, 500}) {
    EXPECT_THAT(tokenizer->Decode({id}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("ids are from 0 to 499")));
  }
}

TEST(BytePairTokenizerTest, RanksMergeTheLowestFirst) {
  std::string ranks;
  for (int byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    absl::StrAppend(&ranks, absl::Base64Escape(absl::string_view(&text, 1)),
                    " ", byte, "\n");
  }
  // bc has precedence over ab, so that abc becomes a and bc.
  absl::StrAppend(&ranks, absl::Base64Escape("bc"), " 256\n",
                  absl::Base64Escape("ab"), " 257\n");
  const auto tokenizer = Open(Write("two.tiktoken", ranks));
  EXPECT_THAT(*tokenizer->Encode("abc ab"), ElementsAre('a', 256, ' ', 257));
  EXPECT_EQ(tokenizer->Special(SpecialToken::kEndOfText), 258);
  EXPECT_EQ(tokenizer->vocabulary(), 259);
}

TEST(Gpt2PatternTest, DividesWhereTheExpressionDoes) {
  std::vector<std::string> words;
  const std::string text = "I'll  see\n\n you'd2 ,x \t";
  for (absl::string_view rest = text; !rest.empty();) {
    const size_t bytes = Gpt2Word(rest);
    words.emplace_back(rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  EXPECT_THAT(words, ElementsAre("I", "'ll", " ", " see", "\n\n", " you", "'d",
                                 "2", " ,", "x", " \t"));
}

TEST(WordPieceTokenizerTest, TakesTheLongestTokens) {
  const auto tokenizer = Open(
      Write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\nun\n##able\n##ab\nete\n!\n"));
  EXPECT_THAT(*tokenizer->Encode("UNable! \xc3\x89t\xc3\xa9 unx"),
              ElementsAre(3, 4, 7, 6, 1));
  EXPECT_THAT(*tokenizer->Encode(std::string(101, 'u')), ElementsAre(1));
  EXPECT_EQ(*tokenizer->Decode({2, 3, 4, 7}), "[CLS] unable !");
  EXPECT_EQ(tokenizer->Special(SpecialToken::kClassification), 2);
}

TEST(OpenTokenizerTest, NamesTheFileAndTheError) {
  const auto expect = [](const std::string& path, absl::StatusCode code,
                         const std::string& part) {
    EXPECT_THAT(OpenTokenizer(path).status(),
                StatusIs(code, AllOf(HasSubstr(path), HasSubstr(part))));
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const auto other = absl::StatusCode::kUnimplemented;
  expect("no-such-file", absl::StatusCode::kNotFound, "no such file");
  expect(Write("x.bin", "x"), invalid, "is none of *.json");
  expect(Write("x.json", "{"), invalid, "not a JSON object");
  expect(Write("y.json", R"({"model": {"type": "Unigram"}})"), other,
         "model.type is \"Unigram\"; only BPE or WordPiece");
  expect(Write("z.json", R"({"model": {"type": "BPE"},
                             "normalizer": {"type": "NFC"}})"),
         other, "normalizer is");
  expect(Write("w.json", R"({"model": {"type": "BPE"},
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": true}})"),
         other, "add_prefix_space is true");
  expect(Write("x.tiktoken", "QQ== 1\n"), invalid,
         "line 1: rank 1, expected 0");
  expect(Write("y.tiktoken", "?\n"), invalid, "line 1: expected the base64");
  expect(Write("x.txt", "a\nb\n"), invalid, "lacks [UNK]");
  expect(Write("y.txt", "[UNK]\na\na\n"), invalid, "tokens 1 and 2 are both");
}

}  // namespace
}  // namespace tributary
