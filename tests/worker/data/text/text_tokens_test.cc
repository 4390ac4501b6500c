#include "worker/data/text/text_tokens.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/data/data_test_util.h"
#include "worker/data/token_data_set.h"

namespace tributary {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::IsEmpty;

// Byte i of the text is i, so that a token says where it comes from.
std::string Counting(int bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  std::iota(text.begin(), text.end(), '\0');
  return text;
}

constexpr int64_t kVocabulary = 256;

absl::StatusOr<std::unique_ptr<TokenDataSet>> OpenText(const TextSpec& spec,
                                                       int64_t context,
                                                       uint64_t seed) {
  absl::StatusOr<TokenData> data = OpenTextTokens(spec);
  if (!data.ok()) return data.status();
  return TokenDataSet::Create(*std::move(data),
                              {"model.gpt", context, kVocabulary}, seed);
}

class TextTokensTest : public testing::Test {
 protected:
  std::unique_ptr<TokenDataSet> Open(const std::string& text, int64_t context,
                                     double validation_fraction,
                                     uint64_t seed = 1) const {
    TextSpec spec;
    spec.add_path(folder_.Write("text", text));
    spec.set_validation_fraction(validation_fraction);
    auto data = OpenText(spec, context, seed);
    EXPECT_EQ(data.status(), absl::OkStatus());
    return data.ok() ? *std::move(data) : nullptr;
  }

  DataFolder folder_;
};

TEST_F(TextTokensTest, SaysWhatItHolds) {
  const auto data = Open(Counting(100), /*context=*/8, 0.25);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->info().kind, DataInfo::Kind::kTokens);
  EXPECT_THAT(data->info().sample_shape, ElementsAre(8));
  EXPECT_EQ(data->info().classes, 256);
  EXPECT_EQ(data->train_samples(), 75 / 8 - 1);
  EXPECT_EQ(data->evaluation_samples(), 3);  // 24 predictions.
}

TEST_F(TextTokensTest, LabelsAreTheNextTokensAndStayInTheTrainingPart) {
  for (const int context : {1, 2, 3, 7, 30}) {
    for (int bytes = 4 * context + 4; bytes < 4 * context + 30; ++bytes) {
      SCOPED_TRACE(testing::Message() << context << " of " << bytes);
      const auto data = Open(Counting(bytes), context, 0.25);
      ASSERT_NE(data, nullptr);
      std::vector<int64_t> all(static_cast<size_t>(data->train_samples()));
      std::iota(all.begin(), all.end(), 0);
      for (int epoch = 0; epoch < 20; ++epoch) {
        Batch batch;
        data->ReadTrain(epoch, all, &batch);
        ASSERT_EQ(batch.tokens.size(), all.size() * context);
        ASSERT_GE(batch.tokens[0], 0);
        ASSERT_LT(batch.tokens[0], context);
        for (size_t i = 0; i < batch.tokens.size(); ++i) {
          ASSERT_EQ(batch.tokens[i], batch.tokens[0] + static_cast<int>(i));
          ASSERT_EQ(batch.labels[i], batch.tokens[i] + 1);
        }
        // Byte `bytes * 3 / 4` is the first that is held out.
        ASSERT_LT(batch.labels.back(), bytes * 3 / 4);
      }
    }
  }
}

TEST_F(TextTokensTest, EveryPhaseOccursAndDependsOnSeedAndEpoch) {
  const auto data = Open(Counting(100), /*context=*/5, 0.25);
  const auto same = Open(Counting(100), /*context=*/5, 0.25);
  const auto other = Open(Counting(100), /*context=*/5, 0.25, /*seed=*/2);
  std::vector<int> phases;
  std::vector<int> other_phases;
  for (int epoch = 0; epoch < 100; ++epoch) {
    Batch batch;
    data->ReadTrain(epoch, {0}, &batch);
    phases.push_back(batch.tokens[0]);
    same->ReadTrain(epoch, {0}, &batch);
    EXPECT_EQ(batch.tokens[0], phases.back());
    other->ReadTrain(epoch, {0}, &batch);
    other_phases.push_back(batch.tokens[0]);
  }
  EXPECT_EQ(std::set<int>(phases.begin(), phases.end()).size(), 5u);
  EXPECT_NE(phases, other_phases);
  // The phases are part of every result: these must never change.
  phases.resize(10);
  EXPECT_THAT(phases, ElementsAre(2, 0, 2, 0, 3, 4, 0, 0, 2, 2));
}

TEST_F(TextTokensTest, EvaluationPredictsEveryByteButTheFirstOnce) {
  for (const int context : {1, 2, 3, 8, 40}) {
    for (const int held_out : {2, 3, 8, 9, 10, 25}) {
      SCOPED_TRACE(testing::Message() << context << " of " << held_out);
      const int bytes = 120;
      const int begin = bytes - held_out;
      const auto data = Open(Counting(bytes), context,
                             // Half a byte more, for the rounding down.
                             (held_out - 0.5) / bytes);
      ASSERT_NE(data, nullptr);
      std::vector<int> predicted;
      for (int64_t i = 0; i < data->evaluation_samples(); ++i) {
        Batch batch;
        data->ReadEvaluation(i, i + 1, &batch);
        ASSERT_EQ(batch.labels.size(), static_cast<size_t>(context));
        for (size_t j = 0; j < batch.labels.size(); ++j) {
          if (batch.labels[j] == -1) {
            EXPECT_EQ(batch.tokens[j], 0);
            EXPECT_EQ(i, data->evaluation_samples() - 1);
          } else {
            EXPECT_EQ(batch.labels[j], batch.tokens[j] + 1);
            predicted.push_back(batch.labels[j]);
          }
        }
      }
      std::vector<int> expected(static_cast<size_t>(held_out - 1));
      std::iota(expected.begin(), expected.end(), begin + 1);
      EXPECT_EQ(predicted, expected);
    }
  }
}

TEST_F(TextTokensTest, BytesAbove127ArePositiveTokens) {
  const auto data = Open(std::string(40, '\xfe'), /*context=*/4, 0.5);
  ASSERT_NE(data, nullptr);
  Batch batch;
  data->ReadTrain(/*epoch=*/0, {0}, &batch);
  EXPECT_THAT(batch.tokens, Each(254));
  EXPECT_THAT(batch.labels, Each(254));
  EXPECT_THAT(batch.features, IsEmpty());
  EXPECT_THAT(batch.values, IsEmpty());
}

TEST_F(TextTokensTest, PutsFilesOneBehindTheOther) {
  TextSpec spec;
  spec.add_path(folder_.Write("a", "abc"));
  spec.add_path(folder_.Write("b.gz", Gzip("defgh")));
  spec.set_validation_fraction(0.5);
  const auto data = OpenText(spec, /*context=*/1, /*seed=*/1);
  ASSERT_EQ(data.status(), absl::OkStatus());
  EXPECT_EQ((*data)->train_samples(), 3);
  Batch batch;
  (*data)->ReadTrain(/*epoch=*/0, {2, 0}, &batch);
  EXPECT_THAT(batch.tokens, ElementsAre('c', 'a'));
  EXPECT_THAT(batch.labels, ElementsAre('d', 'b'));
  (*data)->ReadEvaluation(0, 3, &batch);
  EXPECT_THAT(batch.labels, ElementsAre('f', 'g', 'h'));
}

TEST_F(TextTokensTest, FingerprintIsThatOfTheBytes) {
  const uint64_t fingerprint = Open("abcdefgh", 1, 0.5)->fingerprint();
  EXPECT_EQ(Open("abcdefgh", 2, 0.25)->fingerprint(), fingerprint);
  EXPECT_NE(Open("abcdefgi", 1, 0.5)->fingerprint(), fingerprint);
  EXPECT_NE(Open("abcdefghi", 1, 0.5)->fingerprint(), fingerprint);
}

TEST_F(TextTokensTest, ASplitOfTheUsualKindIsThatOfPyTorchScripts) {
  // train = text[:int(0.9 * n)], the rest is held out.
  const auto data = Open(std::string(15394, 'x'), /*context=*/1, 0.1);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->train_samples() + 1, 13854);
}

}  // namespace
}  // namespace tributary
