#include "worker/data/text/sequence_encoder.h"

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/text_test_util.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<SequenceEncoder> Encoder(int64_t context, bool pairs,
                                        int64_t vocabulary = kTokens) {
  return SequenceEncoder::Create(SmallTokenizer(), "data.x.tokenizer",
                                 {"model.bert", context, vocabulary}, pairs);
}

LabeledTexts Pair(const std::string& first, const std::string& second) {
  LabeledTexts texts;
  texts.texts = {first};
  texts.seconds = {second};
  texts.lines = {1};
  return texts;
}

std::string Words(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "a ";
  return text;
}

struct Sample {
  std::vector<int32_t> tokens;
  std::vector<int32_t> types;
  int32_t length;
};

Sample Read(const Sequences& sequences, int64_t index, int64_t context) {
  Sample sample;
  sample.tokens.resize(context);
  sample.types.resize(context);
  sample.length = sequences.Copy(index, context, kPad, sample.tokens.data(),
                                 sample.types.data());
  return sample;
}

TEST(SequenceEncoderTest, PadsAndTruncatesTexts) {
  const auto encoder = Encoder(/*context=*/5, /*pairs=*/false);
  ASSERT_EQ(encoder.status(), absl::OkStatus());
  LabeledTexts texts;
  texts.texts = {"a", "a b c d e", "B ??"};
  texts.lines = {1, 2, 3};
  const auto sequences = encoder->Encode(texts);
  ASSERT_EQ(sequences.status(), absl::OkStatus());
  ASSERT_EQ(sequences->size(), 3);
  const Sample first = Read(*sequences, 0, 5);
  EXPECT_THAT(first.tokens, ElementsAre(kCls, kWord, kSep, kPad, kPad));
  EXPECT_EQ(first.length, 3);
  const Sample second = Read(*sequences, 1, 5);
  EXPECT_THAT(second.tokens,
              ElementsAre(kCls, kWord, kWord + 1, kWord + 2, kSep));
  EXPECT_EQ(second.length, 5);
  EXPECT_THAT(second.types, testing::Each(0));
  EXPECT_THAT(Read(*sequences, 2, 5).tokens,
              ElementsAre(kCls, kWord + 1, kUnk, kUnk, kSep));
}

TEST(SequenceEncoderTest, SecondTextsHaveTypeOne) {
  const auto encoder = Encoder(/*context=*/8, /*pairs=*/true);
  ASSERT_EQ(encoder.status(), absl::OkStatus());
  const auto sequences = encoder->Encode(Pair("a b", "c"));
  ASSERT_EQ(sequences.status(), absl::OkStatus());
  const Sample sample = Read(*sequences, 0, 8);
  EXPECT_THAT(sample.tokens, ElementsAre(kCls, kWord, kWord + 1, kSep,
                                         kWord + 2, kSep, kPad, kPad));
  EXPECT_THAT(sample.types, ElementsAre(0, 0, 0, 0, 1, 1, 0, 0));
  EXPECT_EQ(sample.length, 6);
}

// make_truncated_pairs.py has written the expected lengths.
TEST(SequenceEncoderTest, TruncatesPairsAsTokenizersDoes) {
  std::ifstream file("tests/worker/data/text/golden/truncated_pairs.txt");
  int lines = 0;
  int first, second, most, first_left, second_left;
  while (file >> first >> second >> most >> first_left >> second_left) {
    ++lines;
    const auto encoder = Encoder(most, /*pairs=*/true);
    ASSERT_EQ(encoder.status(), absl::OkStatus());
    const auto sequences = encoder->Encode(Pair(Words(first), Words(second)));
    ASSERT_EQ(sequences.status(), absl::OkStatus());
    const Sample sample = Read(*sequences, 0, most);
    const int64_t ones =
        std::count(sample.types.begin(), sample.types.end(), 1);
    EXPECT_EQ(ones - 1, second_left) << first << " " << second << " " << most;
    EXPECT_EQ(sample.length - ones - 2, first_left)
        << first << " " << second << " " << most;
  }
  EXPECT_EQ(lines, 3 * 9 * 9);
}

TEST(SequenceEncoderTest, SaysWhatDoesNotSuitTheModel) {
  EXPECT_THAT(Encoder(/*context=*/4, /*pairs=*/true).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("model.bert.context: 4;")));
  EXPECT_THAT(
      Encoder(/*context=*/8, /*pairs=*/true, kTokens - 1).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("model.bert.vocabulary: 30, but data.x.tokenizer has "
                         "31 tokens")));
}

}  // namespace
}  // namespace tributary
