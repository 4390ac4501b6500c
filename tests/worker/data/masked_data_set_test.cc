#include "worker/data/masked_data_set.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/data/data_test_util.h"
#include "tests/worker/data/text_test_util.h"
#include "worker/data/text/text_encoding.h"
#include "worker/data/text/text_tokens.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMaskedContext = 8;

// `count` words, which repeat the alphabet.
std::string Text(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text.push_back(static_cast<char>('a' + i % 26));
    text.push_back(' ');
  }
  return text;
}

class MaskedDataSetTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<MaskedDataSet>> Open(
      const std::string& text, int64_t context = kMaskedContext,
      int64_t vocabulary = kTokens,
      const std::string& words = SmallVocabularyText()) const {
    TextSpec spec;
    spec.add_path(folder_.Write("text", text));
    spec.set_tokenizer(folder_.Write("vocab.txt", words));
    absl::StatusOr<TokenData> data = OpenTextTokens(spec);
    if (!data.ok()) return data.status();
    MaskedDataSet::Options options;
    options.mask_probability = 0.3;
    options.seed = 5;
    return MaskedDataSet::Create(*std::move(data),
                                 {"model.bert", context, vocabulary}, options);
  }

  DataFolder folder_;
};

// Returns the tokens of a sample before they were masked.
std::vector<int32_t> Original(const Batch& batch, int64_t sample,
                              int64_t context) {
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < batch.lengths[sample]; ++i) {
    const int64_t at = sample * context + i;
    tokens.push_back(batch.labels[at] == -1 ? batch.tokens[at]
                                            : batch.labels[at]);
  }
  return tokens;
}

TEST_F(MaskedDataSetTest, SaysWhatItHolds) {
  const auto data = Open(Text(100));
  ASSERT_EQ(data.status(), absl::OkStatus());
  const DataInfo& info = (*data)->info();
  EXPECT_EQ(info.kind, DataInfo::Kind::kSequences);
  EXPECT_THAT(info.sample_shape, ElementsAre(kMaskedContext));
  EXPECT_EQ(info.vocabulary, kTokens);
  EXPECT_EQ(info.token_types, 1);
  EXPECT_TRUE(info.token_labels);
  EXPECT_EQ((*data)->train_samples(), 90 / 6 - 1);
  EXPECT_EQ((*data)->evaluation_samples(), 2);  // 10 tokens.
  const auto encoding = TextEncoding::FromJson((*data)->encoding());
  ASSERT_EQ(encoding.status(), absl::OkStatus());
  EXPECT_THAT(encoding->classes, testing::IsEmpty());
}

TEST_F(MaskedDataSetTest, SamplesAreWindowsBetweenSpecialTokens) {
  const auto data = Open(Text(200));
  ASSERT_EQ(data.status(), absl::OkStatus());
  bool other = false;
  std::vector<int32_t> before;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    Batch batch;
    (*data)->ReadTrain(epoch, {3, 4}, &batch);
    EXPECT_EQ(batch.samples, 2);
    EXPECT_THAT(batch.lengths, ElementsAre(kMaskedContext, kMaskedContext));
    EXPECT_THAT(batch.token_types, testing::Each(0));
    const std::vector<int32_t> first = Original(batch, 0, kMaskedContext);
    const std::vector<int32_t> second = Original(batch, 1, kMaskedContext);
    EXPECT_EQ(first.front(), kCls);
    EXPECT_EQ(first.back(), kSep);
    // The windows are contiguous.
    for (int i = 1; i < 6; ++i) {
      EXPECT_EQ((first[i + 1] - first[i] + 26) % 26, 1);
    }
    EXPECT_EQ((second[1] - first[6] + 26) % 26, 1);
    EXPECT_EQ(batch.labels[0], -1);
    EXPECT_EQ(batch.labels[kMaskedContext - 1], -1);
    other = other || (!before.empty() && before != first);
    before = first;
    // The same samples at any place of a batch, as tokens and as labels.
    Batch again;
    (*data)->ReadTrain(epoch, {4}, &again);
    EXPECT_TRUE(std::equal(again.tokens.begin(), again.tokens.end(),
                           batch.tokens.begin() + kMaskedContext));
    EXPECT_TRUE(std::equal(again.labels.begin(), again.labels.end(),
                           batch.labels.begin() + kMaskedContext));
  }
  EXPECT_TRUE(other);
}

TEST_F(MaskedDataSetTest, EvaluationHoldsEachTokenOnce) {
  for (const int words : {100, 115, 123, 130}) {
    const auto data = Open(Text(words));
    ASSERT_EQ(data.status(), absl::OkStatus());
    Batch batch;
    (*data)->ReadEvaluation(0, (*data)->evaluation_samples(), &batch);
    const int train = static_cast<int>(words * 0.9);
    std::vector<int32_t> held_out;
    for (int64_t sample = 0; sample < batch.samples; ++sample) {
      const std::vector<int32_t> tokens =
          Original(batch, sample, kMaskedContext);
      EXPECT_EQ(tokens.front(), kCls);
      EXPECT_EQ(tokens.back(), kSep);
      held_out.insert(held_out.end(), tokens.begin() + 1, tokens.end() - 1);
      for (int64_t i = batch.lengths[sample]; i < kMaskedContext; ++i) {
        EXPECT_EQ(batch.tokens[sample * kMaskedContext + i], kPad);
        EXPECT_EQ(batch.labels[sample * kMaskedContext + i], -1);
      }
    }
    std::vector<int32_t> expected;
    for (int i = train; i < words; ++i) expected.push_back(kWord + i % 26);
    EXPECT_EQ(held_out, expected);
    Batch again;
    (*data)->ReadEvaluation(0, (*data)->evaluation_samples(), &again);
    EXPECT_EQ(again.tokens, batch.tokens);
  }
}

TEST_F(MaskedDataSetTest, SaysWhatIsWrong) {
  const auto invalid = [](const std::string& part) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part));
  };
  EXPECT_THAT(Open(Text(12)).status(),
              invalid("10 tokens are left for training; model.bert.context 8 "
                      "needs at least 12"));
  EXPECT_THAT(Open(Text(100), /*context=*/2).status(),
              invalid("model.bert.context: 2; must be from 3"));
  EXPECT_THAT(Open(Text(100), kMaskedContext, kTokens - 1).status(),
              invalid("model.bert.vocabulary: 30, but data.text.tokenizer has "
                      "31 tokens; set model.bert.vocabulary to 31"));
  EXPECT_THAT(Open(Text(100), kMaskedContext, kTokens, "[UNK]\n[CLS]\n[SEP]\n")
                  .status(),
              invalid("data.text.tokenizer: the vocabulary has no token "
                      "[MASK]; model.bert needs the tokenizer of a BERT"));
}

}  // namespace
}  // namespace tributary
