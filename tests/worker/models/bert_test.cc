// BERT against float64 transformers; see make_bert_golden.py.
#include "worker/models/bert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/models/golden_file.h"

namespace tributary {
namespace {

constexpr int64_t kContext = 10;
constexpr int64_t kVocabulary = 32;

std::vector<int32_t> ToInt(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

ModelSpec SpecOf(BertSpec::Head head, double dropout = 0) {
  ModelSpec spec;
  BertSpec* const bert = spec.mutable_bert();
  bert->set_layers(2);
  bert->set_heads(2);
  bert->set_width(16);
  bert->set_intermediate(24);
  bert->set_context(kContext);
  bert->set_positions(12);
  bert->set_vocabulary(kVocabulary);
  bert->set_dropout(dropout);
  bert->set_head(head);
  return spec;
}

DataInfo InfoOf(BertSpec::Head head) {
  DataInfo info;
  info.kind = DataInfo::Kind::kSequences;
  info.sample_shape = {kContext};
  info.vocabulary = kVocabulary;
  info.token_types = 2;
  info.token_labels = head == BertSpec::MASKED_LANGUAGE_MODEL;
  info.classes = info.token_labels ? kVocabulary : 3;
  return info;
}

class BertTest : public testing::TestWithParam<BertSpec::Head> {
 protected:
  BertTest()
      : golden_(ReadGoldenFile(
            absl::StrCat("tests/worker/models/golden/bert/",
                         GetParam() == BertSpec::MASKED_LANGUAGE_MODEL
                             ? "masked_language_model"
                             : "classification",
                         ".safetensors"))) {
    batch_.tokens = ToInt(golden_.Tensor("tokens"));
    batch_.token_types = ToInt(golden_.Tensor("types"));
    batch_.lengths = ToInt(golden_.Tensor("lengths"));
    batch_.labels = ToInt(golden_.Tensor("labels"));
    batch_.samples = static_cast<int64_t>(batch_.lengths.size());
  }

  void CopyWeights(ModelHarness* harness) {
    for (const Parameter& parameter : harness->layout().parameters()) {
      const std::vector<double>& from =
          golden_.Tensor("weight/" + parameter.name);
      const std::vector<float> values(from.begin(), from.end());
      ASSERT_EQ(static_cast<int64_t>(values.size()), parameter.size);
      harness->device()->CopyFromHost(harness->weights() + parameter.offset,
                                      values.data(),
                                      values.size() * sizeof(float));
    }
  }

  // Room for more samples than there are: the batch is a short one.
  ModelHarness MakeHarness(double dropout = 0) {
    return ModelHarness(SpecOf(GetParam(), dropout), InfoOf(GetParam()), 5);
  }

  GoldenFile golden_;
  Batch batch_;
};

TEST_P(BertTest, LossAndGradientsAreThoseOfTransformers) {
  ModelHarness harness = MakeHarness();
  CopyWeights(&harness);
  const LossSums sums = harness.Step(batch_);
  const double loss = golden_.Tensor("loss")[0];
  EXPECT_NEAR(sums.loss, loss, 1e-5 * loss);
  EXPECT_EQ(sums.sample_count,
            std::count_if(batch_.labels.begin(), batch_.labels.end(),
                          [](int32_t label) { return label >= 0; }));
  const std::vector<float> gradients = harness.Gradients();
  std::vector<float> unexplained = gradients;
  size_t tensors = 0;
  for (const auto& [name, values] : golden_.tensors) {
    tensors += name.rfind("gradient/", 0) == 0 ? 1 : 0;
  }
  EXPECT_EQ(harness.layout().parameters().size(), tensors);
  for (const Parameter& parameter : harness.layout().parameters()) {
    const std::vector<double>& wanted =
        golden_.Tensor("gradient/" + parameter.name);
    double scale = 0;
    for (const double value : wanted) scale = std::max(scale, std::abs(value));
    for (int64_t i = 0; i < parameter.size; ++i) {
      // The gradients of the biases of keys are 0, but for rounding.
      EXPECT_NEAR(gradients[parameter.offset + i], wanted[i],
                  2e-5 * scale + 1e-6)
          << parameter.name << " " << i;
      unexplained[parameter.offset + i] = 0;
    }
  }
  for (const float value : unexplained) EXPECT_EQ(value, 0) << "in a gap";
}

TEST_P(BertTest, LogitsAreThoseOfTransformers) {
  ModelHarness harness = MakeHarness();
  CopyWeights(&harness);
  std::vector<float> logits;
  ASSERT_TRUE(
      harness.model()->Predict(batch_, harness.weights(), &logits).ok());
  const std::vector<double>& wanted = golden_.Tensor("logits");
  ASSERT_EQ(logits.size(), wanted.size());
  const bool per_token = GetParam() == BertSpec::MASKED_LANGUAGE_MODEL;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const size_t row = i / kVocabulary;
    // transformers also computes the positions that do not exist.
    if (per_token && static_cast<int32_t>(row % kContext) >=
                         batch_.lengths[row / kContext]) {
      continue;
    }
    EXPECT_NEAR(logits[i], wanted[i], 1e-5) << i;
  }
}

TEST_P(BertTest, EvaluationIsThatOfTrainingWithoutDropout) {
  ModelHarness harness = MakeHarness(/*dropout=*/0.5);
  CopyWeights(&harness);
  const auto sums = harness.model()->Evaluate(batch_, harness.weights());
  ASSERT_TRUE(sums.ok()) << sums.status();
  const double loss = golden_.Tensor("loss")[0];
  EXPECT_NEAR(sums->loss, loss, 1e-5 * loss);
  EXPECT_NE(harness.Step(batch_).loss, sums->loss);
}

TEST_P(BertTest, PaddingHasNoEffect) {
  for (const double dropout : {0.0, 0.2}) {
    ModelHarness harness = MakeHarness(dropout);
    CopyWeights(&harness);
    const double loss = harness.Step(batch_).loss;
    const std::vector<float> gradients = harness.Gradients();
    Batch changed = batch_;
    for (int64_t i = 0; i < changed.samples * kContext; ++i) {
      if (i % kContext < changed.lengths[i / kContext]) continue;
      changed.tokens[i] = 31;
      changed.token_types[i] = 1;
    }
    EXPECT_EQ(harness.Step(changed).loss, loss);
    EXPECT_EQ(harness.Gradients(), gradients);
  }
}

TEST_P(BertTest, InvalidBatchesAreRefused) {
  ModelHarness harness = MakeHarness();
  const auto error = [&](const Batch& batch) {
    return std::string(
        harness.model()->Evaluate(batch, harness.weights()).status().message());
  };
  Batch wrong = batch_;
  wrong.lengths[1] = 0;
  EXPECT_EQ(error(wrong), "the batch has the length 0, not from 1 to 10");
  wrong = batch_;
  wrong.lengths.pop_back();
  EXPECT_EQ(
      error(wrong),
      "the batch of 3 samples has 2 lengths, expected 3 (1 for each sample)");
  wrong = batch_;
  wrong.token_types[0] = 2;
  EXPECT_EQ(error(wrong), "the batch has the token type 2, not from 0 to 1");
  wrong = batch_;
  wrong.tokens[0] = 32;
  EXPECT_EQ(error(wrong), "the batch has the token 32, not from 0 to 31");
}

INSTANTIATE_TEST_SUITE_P(Heads, BertTest,
                         testing::Values(BertSpec::MASKED_LANGUAGE_MODEL,
                                         BertSpec::SEQUENCE_CLASSIFICATION),
                         [](const auto& info) {
                           return BertSpec::Head_Name(info.param);
                         });

TEST(BertErrorsTest, NamesTheField) {
  const ModelSpec spec = SpecOf(BertSpec::MASKED_LANGUAGE_MODEL);
  DataInfo info = InfoOf(BertSpec::MASKED_LANGUAGE_MODEL);
  info.vocabulary = 33;
  EXPECT_THAT(std::string(BuildBert(spec, info).status().message()),
              testing::HasSubstr("model.bert.vocabulary: 32"));
  info = TokenInfo(kContext, kVocabulary);
  EXPECT_THAT(std::string(BuildBert(spec, info).status().message()),
              testing::HasSubstr("model.bert: "));
}

}  // namespace
}  // namespace tributary
