// Losses and gradients of whole models against float64 PyTorch; see
// make_golden.py and make_feature_golden.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/model_harness.h"
#include "tests/worker/models/golden_file.h"

namespace tributary {
namespace {

// What the files were made for.
constexpr uint64_t kSeed = 7;
constexpr int64_t kStep = 3;
constexpr int kMicroBatch = 2;

std::vector<float> ToFloat(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}
std::vector<int32_t> ModelGoldenToInt(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

// Keeps the gradients of vectors.
class VectorSink final : public GradientSink {
 public:
  VectorSink(float* data, size_t elements)
      : GradientSink(data), vectors_(elements, NAN) {}
  float* VectorGradients() override { return vectors_.data(); }
  const std::vector<float>& vectors() const { return vectors_; }

 private:
  std::vector<float> vectors_;
};

// Splits a text at spaces.
template <typename T>
std::vector<T> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  std::vector<T> words;
  for (T word; stream >> word;) words.push_back(word);
  return words;
}

class ModelGoldenTest : public testing::TestWithParam<const char*> {
 protected:
  ModelGoldenTest()
      : golden_(ReadGoldenFile(absl::StrCat("tests/worker/models/golden/",
                                            GetParam(), ".safetensors"))) {
    info_.sample_shape = WordsOf<int64_t>(golden_.Text("shape"));
    if (HasVectors()) {
      info_.vector_dims = WordsOf<int64_t>(golden_.Text("dims"));
      info_.vector_names = WordsOf<std::string>(golden_.Text("names"));
    }
    info_.classes = std::stoll(golden_.Text("classes"));
    const std::string& kind = golden_.Text("kind");
    info_.kind = kind == "tokens"   ? DataInfo::Kind::kTokens
                 : kind == "images" ? DataInfo::Kind::kImages
                                    : DataInfo::Kind::kRows;
    FillBatch();
  }

  bool HasVectors() const { return golden_.tensors.count("vectors") > 0; }

  void FillBatch() {
    const std::vector<double>& input = golden_.Tensor("input");
    const std::vector<double>& target = golden_.Tensor("target");
    int64_t sample = 1;
    for (const int64_t size : info_.sample_shape) sample *= size;
    batch_.samples = static_cast<int64_t>(HasVectors() ? target.size()
                                                       : input.size() / sample);
    if (HasVectors()) batch_.vectors = ToFloat(golden_.Tensor("vectors"));
    if (info_.kind == DataInfo::Kind::kTokens) {
      batch_.tokens = ModelGoldenToInt(input);
    } else {
      batch_.features = ToFloat(input);
    }
    if (info_.classes > 0) {
      batch_.labels = ModelGoldenToInt(target);
    } else {
      batch_.values = ToFloat(target);
    }
  }

  void CopyWeights(ModelHarness* harness) {
    for (const Parameter& parameter : harness->layout().parameters()) {
      const std::vector<float> values =
          ToFloat(golden_.Tensor("weight/" + parameter.name));
      ASSERT_EQ(static_cast<int64_t>(values.size()), parameter.size);
      harness->device()->CopyFromHost(harness->weights() + parameter.offset,
                                      values.data(),
                                      values.size() * sizeof(float));
    }
  }

  // Compares a step of `model`, a variant of the file's, with PyTorch's.
  void CheckStep(const ModelSpec& model);

  GoldenFile golden_;
  DataInfo info_;
  Batch batch_;
};

TEST_P(ModelGoldenTest, TableListsTheParametersInForwardOrder) {
  ModelHarness harness(ParseModel(golden_.Text("model")), info_, 8);
  std::string names;
  for (const Parameter& parameter : harness.layout().parameters()) {
    absl::StrAppend(&names, names.empty() ? "" : " ", parameter.name);
    EXPECT_EQ(parameter.group, absl::StrContains(parameter.name, "running_")
                                   ? STATISTICS
                               : parameter.shape.size() >= 2 ? DECAY
                                                             : NO_DECAY)
        << parameter.name;
  }
  EXPECT_EQ(names, golden_.Text("order"));
}

void ModelGoldenTest::CheckStep(const ModelSpec& model) {
  // Room for more samples than there are: the batch is a short one.
  ModelHarness harness(model, info_, 8);
  CopyWeights(&harness);
  VectorSink sink(harness.gradients(), batch_.vectors.size());
  const auto sums = harness.model()->ForwardBackward(
      batch_, kSeed, kStep, kMicroBatch, harness.weights(), &sink,
      /*observer=*/nullptr);
  ASSERT_TRUE(sums.ok()) << sums.status();
  // Float32 has 2^-24 = 6e-8 of relative rounding; these networks add up some
  // hundred roundings of terms that do not cancel much.
  const double loss = golden_.Tensor("loss")[0];
  EXPECT_NEAR(sums->loss, loss, 1e-5 * loss);
  EXPECT_EQ(sums->correct, std::stoll(golden_.Text("correct")));
  EXPECT_EQ(sums->sample_count,
            static_cast<int64_t>(golden_.Tensor("target").size()));

  const std::vector<float> gradients = harness.Gradients();
  std::vector<float> unexplained = gradients;
  for (const Parameter& parameter : harness.layout().parameters()) {
    const std::vector<double>& wanted =
        golden_.Tensor("gradient/" + parameter.name);
    double scale = 0;
    for (const double value : wanted) scale = std::max(scale, std::abs(value));
    for (int64_t i = 0; i < parameter.size; ++i) {
      // Relative to the largest of the tensor: smaller elements are sums of
      // terms that cancel.
      EXPECT_NEAR(gradients[parameter.offset + i], wanted[i], 2e-5 * scale)
          << parameter.name << " " << i;
      unexplained[parameter.offset + i] = 0;
    }
  }
  for (const float value : unexplained) EXPECT_EQ(value, 0) << "in a gap";
  if (!HasVectors()) return;
  const std::vector<double>& wanted = golden_.Tensor("vector_gradient");
  ASSERT_EQ(sink.vectors().size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(sink.vectors()[i], wanted[i], 1e-5) << "vector " << i;
  }
}

TEST_P(ModelGoldenTest, LossAndGradientsAreThoseOfPyTorch) {
  CheckStep(ParseModel(golden_.Text("model")));
}

class FeatureGoldenTest : public ModelGoldenTest {};

TEST_P(FeatureGoldenTest, OutputsAreThoseOfPyTorch) {
  if (absl::StrContains(golden_.Text("model"), "dropout")) {
    GTEST_SKIP() << "the outputs are those of training";
  }
  ModelHarness harness(ParseModel(golden_.Text("model")), info_, 8);
  CopyWeights(&harness);
  std::vector<float> outputs;
  const absl::Status status =
      harness.model()->Predict(batch_, harness.weights(), &outputs);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(harness.model()->outputs().count, 1);
  const std::vector<double>& wanted = golden_.Tensor("outputs");
  ASSERT_EQ(outputs.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(outputs[i], wanted[i], 1e-5) << i;
  }
}

TEST_P(FeatureGoldenTest, RecomputingActivationsGivesTheSameBits) {
  const auto run = [&](bool recompute) {
    NetworkPart part;
    part.recompute = recompute;
    ModelHarness harness(ParseModel(golden_.Text("model")), info_, 8);
    const auto model =
        CreateModel(ParseModel(golden_.Text("model")), info_, 8,
                    harness.device(), /*copies=*/nullptr, {}, part);
    EXPECT_TRUE(model.ok()) << model.status();
    VectorSink sink(harness.gradients(), batch_.vectors.size());
    const auto sums = (*model)->ForwardBackward(
        batch_, kSeed, kStep, kMicroBatch, harness.weights(), &sink,
        /*observer=*/nullptr);
    EXPECT_TRUE(sums.ok()) << sums.status();
    std::vector<float> gradients = harness.Gradients();
    gradients.insert(gradients.end(), sink.vectors().begin(),
                     sink.vectors().end());
    return gradients;
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_P(FeatureGoldenTest, EvaluationCountsTheLogitsOfSamplesThatCount) {
  ModelHarness harness(ParseModel(golden_.Text("model")), info_, 8);
  CopyWeights(&harness);
  if (info_.classes > 0) batch_.labels[1] = kNotCounted;
  const auto sums = harness.model()->Evaluate(batch_, harness.weights());
  ASSERT_TRUE(sums.ok()) << sums.status();
  if (info_.classes == 0) {
    EXPECT_TRUE(sums->scores.bins().empty());
    EXPECT_TRUE(sums->metrics.empty());
    return;
  }
  std::vector<float> outputs;
  ASSERT_TRUE(
      harness.model()->Predict(batch_, harness.weights(), &outputs).ok());
  ScoreHistogram expected;
  double predicted = 0;
  for (const int i : {0, 2, 3, 4}) {
    expected.Add(outputs[i], batch_.labels[i]);
    predicted += 1 / (1 + std::exp(-outputs[i]));
  }
  EXPECT_EQ(sums->scores.Auc(), expected.Auc());
  EXPECT_EQ(sums->scores.bins().size(), expected.bins().size());
  ASSERT_EQ(sums->metrics.size(), 1u);
  EXPECT_EQ(sums->metrics[0].name, "calibration");
  EXPECT_NEAR(sums->metrics[0].sum, predicted, 1e-5);
  EXPECT_EQ(sums->metrics[0].count, 3);
}

TEST_P(FeatureGoldenTest, RefusesVectorsOfTheWrongSize) {
  ModelHarness harness(ParseModel(golden_.Text("model")), info_, 8);
  batch_.vectors.pop_back();
  EXPECT_EQ(harness.TryStep(batch_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

class GptGoldenTest : public ModelGoldenTest {};

// Pads 16 tokens to 20. The weights of the four would have a probability of
// 1/20 each if the head did not mask their logits. CheckStep expects a gradient
// of zero for them, because they lie in a gap.
TEST_P(GptGoldenTest, PaddingOfTheVocabularyChangesNothing) {
  ModelSpec model = ParseModel(golden_.Text("model"));
  model.mutable_gpt()->set_vocabulary_multiple(10);
  CheckStep(model);
}

TEST_P(GptGoldenTest, NorInBfloat16) {
  ModelSpec model = ParseModel(golden_.Text("model"));
  ModelHarness plain(model, info_, 8, Precision::kBfloat16);
  model.mutable_gpt()->set_vocabulary_multiple(10);
  ModelHarness padded(model, info_, 8, Precision::kBfloat16);
  const LossSums expected = plain.Step(batch_);
  const LossSums sums = padded.Step(batch_);
  EXPECT_NEAR(sums.loss, expected.loss, 1e-3 * expected.loss);
  EXPECT_EQ(plain.layout().parameter_count(),
            padded.layout().parameter_count());
  const std::vector<float> from = plain.Gradients();
  const std::vector<float> to = padded.Gradients();
  for (const Parameter& parameter : plain.layout().parameters()) {
    const Parameter& same = padded.FindParameter(parameter.name);
    EXPECT_EQ(same.shape, parameter.shape);
    for (int64_t i = 0; i < parameter.size; ++i) {
      // A rounding to bfloat16, which has 8 bits.
      EXPECT_NEAR(to[same.offset + i], from[parameter.offset + i], 0.01)
          << parameter.name << " " << i;
    }
  }
}

TEST_P(ModelGoldenTest, EvaluationIsThatOfPyTorch) {
  ModelHarness harness(ParseModel(golden_.Text("model")), info_, 8);
  CopyWeights(&harness);
  const auto sums = harness.model()->Evaluate(batch_, harness.weights());
  ASSERT_TRUE(sums.ok()) << sums.status();
  if (golden_.tensors.count("evaluation_loss") == 0) {
    GTEST_SKIP() << "the model evaluates as it trains, but for dropout";
  }
  const double loss = golden_.Tensor("evaluation_loss")[0];
  EXPECT_NEAR(sums->loss, loss, 1e-5 * loss);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ModelGoldenTest,
    testing::Values("mlp_relu", "mlp_gelu", "mlp_dropout", "mlp_regression",
                    "cnn_max", "cnn_max_gelu", "cnn_average", "cnn_dropout",
                    "cnn_smoothed", "resnet", "resnet_imagenet",
                    "resnet_bottleneck", "gpt_smoothed", "gpt_tied",
                    "gpt_tied_no_bias", "gpt_untied", "gpt_untied_no_bias",
                    "gpt_dropout"),
    [](const auto& info) { return std::string(info.param); });
const auto kFeatureModels = testing::Values(
    "dlrm", "dlrm_plain", "deepfm", "deepfm_no_numbers", "dcn_v2",
    "dcn_v2_rank", "wide_and_deep", "wide_and_deep_dropout",
    "matrix_factorization", "matrix_factorization_ratings", "two_towers");
INSTANTIATE_TEST_SUITE_P(Features, ModelGoldenTest, kFeatureModels,
                         [](const auto& info) {
                           return std::string(info.param);
                         });
INSTANTIATE_TEST_SUITE_P(Features, FeatureGoldenTest, kFeatureModels,
                         [](const auto& info) {
                           return std::string(info.param);
                         });
INSTANTIATE_TEST_SUITE_P(Gpts, GptGoldenTest,
                         testing::Values("gpt_tied", "gpt_untied_no_bias",
                                         "gpt_smoothed", "gpt_dropout"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace tributary
