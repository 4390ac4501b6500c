#include "worker/data/text/token_masking.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using testing::ElementsAre;

constexpr int32_t kMaskId = 4;

TokenMasking::Options SomeOptions(double probability) {
  TokenMasking::Options options;
  options.seed = 42;
  options.probability = probability;
  options.special = {/*classification=*/2, /*separator=*/3, kMaskId,
                     /*padding=*/0, /*unknown=*/1};
  options.vocabulary = 1000;
  return options;
}

std::vector<int32_t> TokenMaskingWords(int count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 5);
  return tokens;
}

struct Masked {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;
};

Masked Mask(const TokenMasking::Options& options, int64_t epoch, int64_t index,
            std::vector<int32_t> tokens) {
  Masked masked;
  masked.labels.resize(tokens.size());
  TokenMasking(options).Mask(epoch, index, absl::MakeSpan(tokens),
                             masked.labels.data());
  masked.tokens = std::move(tokens);
  return masked;
}

TEST(TokenMaskingTest, SharesAreThoseOfDevlin) {
  const TokenMasking::Options options = SomeOptions(0.15);
  const std::vector<int32_t> words = TokenMaskingWords(100);
  std::map<std::string, int> counts;
  constexpr int kSamples = 2000;
  for (int index = 0; index < kSamples; ++index) {
    const Masked masked = Mask(options, /*epoch=*/3, index, words);
    for (size_t i = 0; i < words.size(); ++i) {
      if (masked.labels[i] == -1) {
        EXPECT_EQ(masked.tokens[i], words[i]);
        continue;
      }
      EXPECT_EQ(masked.labels[i], words[i]);
      ++counts["predicted"];
      const int32_t token = masked.tokens[i];
      ++counts[token == kMaskId    ? "masked"
               : token == words[i] ? "kept"
                                   : "drawn"];
    }
  }
  const double predicted = counts["predicted"];
  // Four standard deviations.
  EXPECT_NEAR(predicted / (kSamples * 100), 0.15, 4 * 0.0008);
  EXPECT_NEAR(counts["masked"] / predicted, 0.8, 4 * 0.0024);
  EXPECT_NEAR(counts["drawn"] / predicted, 0.1, 4 * 0.0018);
  EXPECT_NEAR(counts["kept"] / predicted, 0.1, 4 * 0.0018);
}

TEST(TokenMaskingTest, DependsOnSeedEpochAndSampleOnly) {
  TokenMasking::Options options = SomeOptions(0.5);
  const std::vector<int32_t> words = TokenMaskingWords(50);
  const Masked first = Mask(options, 1, 7, words);
  EXPECT_EQ(Mask(options, 1, 7, words).tokens, first.tokens);
  EXPECT_NE(Mask(options, 2, 7, words).labels, first.labels);
  EXPECT_NE(Mask(options, 1, 8, words).labels, first.labels);
  EXPECT_NE(Mask(options, TokenMasking::kEvaluation, 7, words).labels,
            first.labels);
  options.seed = 43;
  EXPECT_NE(Mask(options, 1, 7, words).labels, first.labels);
}

TEST(TokenMaskingTest, SpecialTokensAreNotPredicted) {
  const TokenMasking::Options options = SomeOptions(0.999999);
  for (int index = 0; index < 100; ++index) {
    const Masked masked = Mask(options, 0, index, {0, 1, 2, 3, 4, 10});
    EXPECT_THAT(masked.labels, ElementsAre(-1, -1, -1, -1, -1, 10));
  }
}

TEST(TokenMaskingTest, PredictsAtLeastOneToken) {
  const TokenMasking::Options options = SomeOptions(1e-9);
  std::vector<int> chosen(10);
  for (int index = 0; index < 1000; ++index) {
    const Masked masked = Mask(options, 0, index, TokenMaskingWords(10));
    int predicted = 0;
    for (size_t i = 0; i < 10; ++i) {
      if (masked.labels[i] == -1) continue;
      ++predicted;
      ++chosen[i];
    }
    EXPECT_EQ(predicted, 1);
    // Also in a sample without ordinary tokens.
    const Masked special = Mask(options, 0, index, {1, 1, 1});
    EXPECT_EQ(std::count(special.labels.begin(), special.labels.end(), 1), 1);
  }
  for (const int count : chosen) EXPECT_NEAR(count, 100, 40);
}

}  // namespace
}  // namespace tributary
