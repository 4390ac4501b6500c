#include "worker/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kMlp[] = "mlp { hidden: 21 hidden: 5 dropout: 0.2 }";
constexpr char kCnn[] =
    "cnn { block { channels: 3 } block { channels: 5 kernel: 5 pool: AVERAGE } "
    "hidden: 9 dropout: 0.2 }";
constexpr char kResnet[] = "resnet { layers: [1, 2] width: 3 stem: IMAGENET }";
constexpr char kGpt[] =
    "gpt { layers: 2 heads: 2 width: 12 context: 6 dropout: 0.2 }";

// Remembers what it was told; refuses the weights asked for `refuse`th.
class Recorder : public ModelCalls {
 public:
  explicit Recorder(int refuse = -1) : refuse_(refuse) {}

  bool Await(int64_t begin, int64_t end) override {
    needed.emplace_back(begin, end);
    return static_cast<int>(needed.size()) - 1 != refuse_;
  }
  void Ready(int64_t begin) override { ready.push_back(begin); }

  std::vector<std::pair<int64_t, int64_t>> needed;
  std::vector<int64_t> ready;

 private:
  const int refuse_;
};

struct Family {
  const char* name;
  const char* spec;
  DataInfo info;
};

class ModelTest : public testing::TestWithParam<Family> {
 protected:
  static constexpr int64_t kSamples = 4;

  ModelHarness Make() const {
    return ModelHarness(ParseModel(GetParam().spec), GetParam().info, kSamples);
  }
  static ModelSpec WithoutDropout() {
    ModelSpec spec = ParseModel(GetParam().spec);
    if (spec.has_mlp()) spec.mutable_mlp()->clear_dropout();
    if (spec.has_cnn()) spec.mutable_cnn()->clear_dropout();
    if (spec.has_gpt()) spec.mutable_gpt()->clear_dropout();
    return spec;
  }
  static bool HasBatchNorm() {
    return ParseModel(GetParam().spec).has_resnet();
  }
  Batch Samples(int64_t count, uint32_t seed = 1) const {
    return MakeBatch(GetParam().info, count, seed);
  }
};

TEST_P(ModelTest, GradientIsTheSumOverSamples) {
  if (HasBatchNorm()) {
    GTEST_SKIP() << "batch norm mixes the samples of a micro-batch";
  }
  // Dropout counts from the start of the micro-batch, so it must be off here.
  ModelHarness harness(WithoutDropout(), GetParam().info, kSamples);
  const LossSums all = harness.Step(Samples(3));
  const std::vector<float> wanted = harness.Gradients();

  std::vector<double> sum(wanted.size());
  double loss = 0;
  const Batch batch = Samples(3);
  for (int64_t i = 0; i < 3; ++i) {
    const auto slice = [&](const auto& values) {
      const int64_t size = static_cast<int64_t>(values.size()) / 3;
      return std::decay_t<decltype(values)>(values.begin() + i * size,
                                            values.begin() + (i + 1) * size);
    };
    const Batch one = {1, slice(batch.features), slice(batch.tokens),
                       slice(batch.labels), slice(batch.values)};
    loss += harness.Step(one).loss;
    const std::vector<float> gradients = harness.Gradients();
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += gradients[k];
  }
  EXPECT_NEAR(all.loss, loss, 1e-5 * loss);
  for (size_t k = 0; k < sum.size(); ++k) {
    // Sums of a few tens of float32 terms of size 1 at most.
    EXPECT_NEAR(wanted[k], sum[k], 1e-5) << k;
  }
}

TEST_P(ModelTest, EmptyBatchGivesZeros) {
  ModelHarness harness = Make();
  harness.Step(Samples(kSamples));
  Recorder recorder;
  const LossSums sums = harness.Step(Samples(0), 0, 0, &recorder);
  EXPECT_EQ(sums.loss, 0);
  EXPECT_EQ(sums.sample_count, 0);
  for (const float gradient : harness.Gradients()) EXPECT_EQ(gradient, 0);
  // It reads no weights, but must not report before the step can begin.
  ASSERT_EQ(recorder.needed.size(), 1u);
  EXPECT_EQ(recorder.needed[0].first, 0);
  EXPECT_EQ(recorder.needed[0].second, harness.layout().arena_elements());
  EXPECT_EQ(recorder.ready, std::vector<int64_t>{0});
}

TEST_P(ModelTest, LabelsOfMinusOneDoNotCount) {
  ModelHarness harness(WithoutDropout(), GetParam().info, kSamples);
  Batch batch = Samples(kSamples);
  const int64_t all = static_cast<int64_t>(batch.labels.size());
  batch.labels[1] = -1;
  const LossSums sums = harness.Step(batch);
  EXPECT_EQ(sums.sample_count, all - 1);
  EXPECT_EQ(harness.model()->Evaluate(batch, harness.weights())->sample_count,
            all - 1);
  batch.labels.assign(batch.labels.size(), -1);
  EXPECT_EQ(harness.Step(batch).loss, 0);
  for (const float gradient : harness.Gradients()) EXPECT_EQ(gradient, 0);
}

TEST_P(ModelTest, AsksForEveryWeightInOrderBeforeItIsRead) {
  ModelHarness harness = Make();
  Recorder recorder;
  harness.Step(Samples(kSamples), 0, 0, &recorder);
  // Each parameter is within what was asked for; new ones in rising order.
  int64_t end = 0;
  for (const auto& [begin, range_end] : recorder.needed) {
    EXPECT_LT(begin, range_end);
    if (begin < end) continue;  // A shared one, once more.
    EXPECT_LT(begin - end, kArenaAlignment);
    end = range_end;
  }
  const Parameter& last = harness.layout().parameters().back();
  EXPECT_EQ(end, last.offset + last.size);
}

TEST_P(ModelTest, SaysWhichGradientsAreFinalFromTheEndToTheStart) {
  ModelHarness harness = Make();
  const Batch batch = Samples(kSamples);
  harness.Step(batch);
  const std::vector<float> wanted = harness.Gradients();

  // What is said to be final must not change afterwards.
  class Checker : public ModelCalls {
   public:
    Checker(ModelHarness* harness, const std::vector<float>& wanted)
        : harness_(harness), wanted_(wanted) {}
    void Ready(int64_t begin) override {
      EXPECT_LT(begin, last);
      EXPECT_EQ(begin % kArenaAlignment, 0);
      const std::vector<float> now = harness_->Gradients();
      for (size_t i = begin; i < now.size(); ++i) EXPECT_EQ(now[i], wanted_[i]);
      last = begin;
      ++calls;
    }
    int64_t last = std::numeric_limits<int64_t>::max();
    int calls = 0;

   private:
    ModelHarness* const harness_;
    const std::vector<float>& wanted_;
  } checker(&harness, wanted);

  const std::vector<float> dirt(wanted.size(), NAN);
  harness.device()->CopyFromHost(harness.gradients(), dirt.data(),
                                 dirt.size() * sizeof(float));
  harness.Step(batch, 0, 0, &checker);
  EXPECT_EQ(checker.last, 0);
  EXPECT_GE(checker.calls, 3);  // So that the exchange can start early.
}

TEST_P(ModelTest, GivesUpWhenTheObserverSaysSo) {
  ModelHarness harness = Make();
  const Batch batch = Samples(kSamples);
  for (const int refuse : {0, 2}) {
    Recorder recorder(refuse);
    const auto sums = harness.TryStep(batch, 0, 0, &recorder);
    EXPECT_EQ(sums.status().code(), absl::StatusCode::kAborted);
    EXPECT_EQ(static_cast<int>(recorder.needed.size()), refuse + 1);
    EXPECT_TRUE(recorder.ready.empty());
  }
  // And is none the worse for it.
  harness.Step(batch);
  const std::vector<float> after = harness.Gradients();
  ModelHarness fresh = Make();
  fresh.Step(batch);
  EXPECT_EQ(after, fresh.Gradients());
}

TEST_P(ModelTest, BitsDependOnTheArgumentsAlone) {
  // Two instances with different pasts; the second is planned for more.
  ModelHarness first = Make();
  ModelHarness second(ParseModel(GetParam().spec), GetParam().info, 7);
  second.Step(MakeBatch(GetParam().info, 7, 5), /*step=*/8, /*micro_batch=*/3);
  (void)second.model()->Evaluate(MakeBatch(GetParam().info, 5, 6),
                                 second.weights());
  const LossSums a = first.Step(Samples(3), /*step=*/2, /*micro_batch=*/1);
  const LossSums b = second.Step(Samples(3), /*step=*/2, /*micro_batch=*/1);
  EXPECT_EQ(a.loss, b.loss);
  EXPECT_EQ(a.correct, b.correct);
  EXPECT_EQ(first.Gradients(), second.Gradients());
}

TEST_P(ModelTest, DropoutIsKeyedByStepAndMicroBatch) {
  if (HasBatchNorm()) GTEST_SKIP() << "has no dropout";
  ModelHarness harness = Make();
  const Batch batch = Samples(kSamples);
  const double loss = harness.Step(batch, 0, 0).loss;
  EXPECT_NE(harness.Step(batch, 1, 0).loss, loss);
  EXPECT_NE(harness.Step(batch, 0, 1).loss, loss);
  EXPECT_EQ(harness.Step(batch, 0, 0).loss, loss);
}

TEST_P(ModelTest, EvaluationDropsNothing) {
  ModelHarness harness = Make();
  const Batch batch = Samples(kSamples);
  const auto sums = harness.model()->Evaluate(batch, harness.weights());
  ASSERT_TRUE(sums.ok());
  harness.Step(batch);
  EXPECT_EQ(harness.model()->Evaluate(batch, harness.weights())->loss,
            sums->loss);
  if (HasBatchNorm()) return;  // Whose evaluation differs on purpose.
  // Without dropout, training computes the same loss.
  ModelHarness without(WithoutDropout(), GetParam().info, kSamples);
  EXPECT_EQ(without.Step(batch).loss, sums->loss);
}

TEST_P(ModelTest, InitialValuesDependOnTheSeedAlone) {
  ModelHarness harness = Make();
  ModelHarness other(ParseModel(GetParam().spec), GetParam().info, 1);
  const int64_t size = harness.layout().arena_elements();
  std::vector<float> a(size, NAN), b(size, NAN), c(size, NAN);
  harness.model()->Initialize(5, harness.layout(), a.data());
  other.model()->Initialize(5, other.layout(), b.data());
  harness.model()->Initialize(6, harness.layout(), c.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

TEST_P(ModelTest, RefusesBatchesThatDoNotFit) {
  ModelHarness harness = Make();
  const auto status_of = [&](const Batch& batch) {
    return harness.model()->Evaluate(batch, harness.weights()).status();
  };
  EXPECT_THAT(std::string(status_of(Samples(kSamples + 1)).message()),
              HasSubstr("up to 4"));
  Batch batch = Samples(2);
  batch.samples = 3;
  EXPECT_EQ(status_of(batch).code(), absl::StatusCode::kInvalidArgument);
  batch = Samples(2);
  batch.labels[1] = static_cast<int32_t>(GetParam().info.classes);
  EXPECT_THAT(std::string(status_of(batch).message()), HasSubstr("label"));
  batch.labels[1] = -2;
  EXPECT_EQ(status_of(batch).code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(
    Families, ModelTest,
    testing::Values(Family{"Mlp", kMlp, RowInfo(7, 4)},
                    Family{"Cnn", kCnn, ImageInfo(1, 8, 9, 4)},
                    Family{"Resnet", kResnet, ImageInfo(2, 18, 15, 4)},
                    Family{"Gpt", kGpt, TokenInfo(6, 19)}),
    [](const auto& info) { return std::string(info.param.name); });

class GptTest : public testing::Test {
 protected:
  std::vector<float> Logits(const std::vector<int32_t>& tokens) {
    std::vector<float> logits(19);
    EXPECT_EQ(harness_.model()->NextTokenLogits(tokens, harness_.weights(),
                                                absl::MakeSpan(logits)),
              absl::OkStatus());
    return logits;
  }

  ModelHarness harness_{ParseModel(kGpt), TokenInfo(6, 19), 2};
};

TEST_F(GptTest, NextTokenLogitsExplainTheEvaluationLoss) {
  Batch batch = MakeBatch(TokenInfo(6, 19), 1, 3);
  double loss = 0;
  for (int t = 0; t < 6; ++t) {
    const std::vector<float> logits =
        Logits({batch.tokens.begin(), batch.tokens.begin() + t + 1});
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit);
    loss += std::log(sum) - logits[batch.labels[t]];
  }
  EXPECT_NEAR(harness_.model()->Evaluate(batch, harness_.weights())->loss, loss,
              1e-5 * loss);
}

TEST_F(GptTest, NextTokenLogitsSeeTheLastTokensOnly) {
  EXPECT_EQ(Logits({18, 3, 1, 2, 3, 4, 5, 6}), Logits({1, 2, 3, 4, 5, 6}));
}

TEST_F(GptTest, NextTokenLogitsRefuseWrongArguments) {
  std::vector<float> logits(19);
  Model* model = harness_.model();
  const auto code = [&](std::vector<int32_t> tokens, size_t room) {
    return model
        ->NextTokenLogits(tokens, harness_.weights(),
                          absl::MakeSpan(logits).subspan(0, room))
        .code();
  };
  EXPECT_EQ(code({}, 19), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({19}, 19), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({1}, 18), absl::StatusCode::kInvalidArgument);
  ModelHarness mlp(ParseModel(kMlp), RowInfo(7, 4), 1);
  EXPECT_EQ(mlp.model()
                ->NextTokenLogits({}, mlp.weights(), absl::MakeSpan(logits))
                .code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(GptTest, InitialValuesAreNanoGpts) {
  ModelHarness harness(
      ParseModel("gpt { layers: 8 heads: 2 width: 64 context: 32 }"),
      TokenInfo(32, 256), 1);
  const auto deviation = [&](const std::string& name) {
    const Parameter& parameter = harness.FindParameter(name);
    double squares = 0;
    for (int64_t i = 0; i < parameter.size; ++i) {
      squares += std::pow(harness.weights()[parameter.offset + i], 2.0);
    }
    return std::sqrt(squares / parameter.size);
  };
  // Five standard errors of the smallest, 2048 values: 8 %.
  EXPECT_NEAR(deviation("transformer.wte.weight"), 0.02, 0.0016);
  EXPECT_NEAR(deviation("transformer.wpe.weight"), 0.02, 0.0016);
  EXPECT_NEAR(deviation("transformer.h.3.attn.c_attn.weight"), 0.02, 0.0016);
  EXPECT_NEAR(deviation("transformer.h.3.attn.c_proj.weight"), 0.005, 0.0004);
  EXPECT_NEAR(deviation("transformer.h.7.mlp.c_proj.weight"), 0.005, 0.0004);
  EXPECT_EQ(deviation("transformer.h.7.mlp.c_proj.bias"), 0);
  EXPECT_EQ(deviation("transformer.ln_f.weight"), 1);
  EXPECT_EQ(deviation("transformer.ln_f.bias"), 0);
}

TEST(ModelSizeTest, RefusesMoreParametersThanAnArenaHolds) {
  const std::unique_ptr<Device> device = CreateCpuDevice();
  const auto model =
      CreateModel(ParseModel("mlp { hidden: 1048576 hidden: 1048576 }"),
                  RowInfo(3, 2), /*max_samples=*/2, device.get());
  EXPECT_THAT(model, StatusIs(absl::StatusCode::kInvalidArgument,
                              HasSubstr("hidden.1.weight")));
}

TEST(ModelSizeTest, RefusesBatchesThatNoMemoryHolds) {
  const std::unique_ptr<Device> device = CreateCpuDevice();
  const auto model = CreateModel(ParseModel("mlp { hidden: 1000 }"),
                                 RowInfo(3, 2), int64_t{1} << 50, device.get());
  EXPECT_EQ(model.status().code(), absl::StatusCode::kResourceExhausted);
}

struct Mistake {
  const char* name;
  const char* spec;
  DataInfo info;
  const char* message;
};

class ModelMistakeTest : public testing::TestWithParam<Mistake> {};

TEST_P(ModelMistakeTest, IsRefusedWithTheField) {
  const std::unique_ptr<Device> device = CreateCpuDevice();
  const auto model = CreateModel(ParseModel(GetParam().spec), GetParam().info,
                                 /*max_samples=*/2, device.get());
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(model.status().message()), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, ModelMistakeTest,
    testing::Values(
        Mistake{"MlpOnText", "mlp {}", TokenInfo(8, 256),
                "model.mlp: cannot learn text; use model.gpt"},
        Mistake{"MlpWidth", "mlp { hidden: 4 hidden: 0 }", RowInfo(3, 2),
                "model.mlp.hidden[1]: 0 is not between 1 and 1048576"},
        Mistake{"RegressionOnClasses", "mlp {} loss: MEAN_SQUARED_ERROR",
                RowInfo(3, 2),
                "model.loss: MEAN_SQUARED_ERROR needs rows (data.csv or "
                "data.external) whose label is a number, not a class"},
        Mistake{"RegressionOnImages",
                "cnn { block { channels: 2 } } loss: MEAN_SQUARED_ERROR",
                ImageInfo(1, 8, 8, 2),
                "model.loss: MEAN_SQUARED_ERROR needs rows (data.csv or "
                "data.external) whose label is a number, not a class"},
        Mistake{"ClassesOnNumbers", "mlp {}", RowInfo(3, 0),
                "model.loss: CROSS_ENTROPY needs data with classes; for "
                "numbers use MEAN_SQUARED_ERROR"},
        Mistake{"CnnOnRows", "cnn { block { channels: 2 } }", RowInfo(3, 2),
                "model.cnn: needs images; the data are rows of numbers"},
        Mistake{"CnnKernel",
                "cnn { block { channels: 2 kernel: 9 padding: 0 } }",
                ImageInfo(1, 8, 8, 2),
                "model.cnn.block[0].kernel: 9 is larger than its 8x8 input "
                "with padding 0"},
        Mistake{"CnnPool",
                "cnn { block { channels: 2 } block { channels: 2 } "
                "block { channels: 2 pool_size: 5 } }",
                ImageInfo(1, 12, 14, 2),
                "model.cnn.block[2].pool_size: 5 is larger than its 3x3 input"},
        Mistake{"ResnetOnText", "resnet {}", TokenInfo(8, 256),
                "model.resnet: needs images; the data are text"},
        Mistake{"GptOnImages", "gpt {}", ImageInfo(1, 8, 8, 2),
                "model.gpt: needs text; the data are images"},
        Mistake{"GptContext", "gpt { context: 32 }", TokenInfo(64, 256),
                "model.gpt.context: 32, but the data come in sequences of 64"},
        Mistake{"GptLoss", "gpt {} loss: MEAN_SQUARED_ERROR",
                TokenInfo(64, 256),
                "model.loss: model.gpt needs CROSS_ENTROPY"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tributary
