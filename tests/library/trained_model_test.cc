// Networks and data of a program, trained, and then loaded from their run.
#include "tributary/trained_model.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"
#include "tributary/job.h"
#include "tributary/nn.h"

namespace tributary {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr int64_t kHeldOut = 150;

// Points x in [-1, 1). The value is 2 x_0 - x_1, and the class is 1 where the
// value is positive.
class Points final : public DataSet {
 public:
  Points(bool classes, int64_t held_out) : held_out_(held_out) {
    info_.sample_shape = {2};
    info_.classes = classes ? 2 : 0;
  }

  static std::vector<float> At(int64_t i) {
    return {static_cast<float>(std::sin(static_cast<double>(i))),
            static_cast<float>(std::cos(static_cast<double>(3 * i)))};
  }
  static float ValueOf(const std::vector<float>& x) { return 2 * x[0] - x[1]; }

  const DataInfo& info() const override { return info_; }
  int64_t train_samples() const override { return 512; }
  int64_t evaluation_samples() const override { return held_out_; }
  uint64_t fingerprint() const override { return 1; }
  void ReadTrain(int64_t /*epoch*/, absl::Span<const int64_t> indexes,
                 Batch* batch) const override {
    *batch = Batch();
    for (const int64_t i : indexes) Append(i, batch);
  }
  void ReadEvaluation(int64_t begin, int64_t end, Batch* batch) const override {
    *batch = Batch();
    for (int64_t i = begin; i < end; ++i) Append(1000 + i, batch);
  }

 private:
  void Append(int64_t i, Batch* batch) const {
    const std::vector<float> x = At(i);
    batch->features.insert(batch->features.end(), x.begin(), x.end());
    if (info_.classes > 0) {
      batch->labels.push_back(ValueOf(x) > 0 ? 1 : 0);
    } else {
      batch->values.push_back(ValueOf(x));
    }
    ++batch->samples;
  }

  const int64_t held_out_;
  DataInfo info_;
};

// |x - value|, smoothed.
class SmoothError final : public LossFunction {
 public:
  Targets targets() const override { return Targets::kValues; }
  Sums Compute(const Arguments& args) const override {
    Sums sums;
    for (int64_t i = 0; i < args.samples; ++i) {
      const double error = static_cast<double>(args.x[i]) - args.values[i];
      sums.loss += std::log(std::cosh(error));
      if (args.gradient != nullptr) {
        args.gradient[i] = static_cast<float>(std::tanh(error));
      }
    }
    return sums;
  }
};

absl::StatusOr<Graph> BuildLine(Config* config, const DataInfo& data) {
  const std::string name = config->Text("loss", "");
  LossSpec loss = LossSpec::MeanSquaredError();
  if (name == "binary") loss = LossSpec::BinaryCrossEntropy();
  if (name == "softmax") loss = LossSpec::SoftmaxCrossEntropy(data.classes);
  if (name == "own") {
    loss = LossSpec::Function(std::make_shared<SmoothError>(), /*width=*/1);
  }
  Graph graph(2);
  graph.SetLoss(
      loss,
      graph.Add("line",
                std::make_unique<Linear>(Linear::FanInOptions(2, loss.width)),
                {graph.input()}));
  return graph;
}

absl::StatusOr<std::unique_ptr<DataSet>> OpenPoints(Config* config) {
  return std::make_unique<Points>(
      config->Flag("classes", false),
      config->Integer("held_out", kHeldOut, 0, 999));
}

class TrainedModelTest : public ::testing::Test {
 protected:
  // Trains a line with the loss of this name.
  Job::Result Train(const std::string& loss, bool classes) {
    Job::Options options;
    options.text = absl::StrCat(
        "model { external { name: \"line\" config: '{\"loss\": \"", loss,
        "\"}' } }\n"
        "data { external { name: \"points\" config: '{\"classes\": ",
        classes ? "true" : "false",
        "}' } }\n"
        "batch { global: 32 micro_batches: 4 }\n"
        "optimizer { adamw { learning_rate: 0.05 weight_decay: 0 } }\n"
        "epochs: 20\n");
    options.models.Add("line", &BuildLine);
    options.data_sets.Add("points", &OpenPoints);
    options.workers = 2;
    options.device = "cpu";
    options.output_directory = run_;
    options.overwrite = true;
    const absl::StatusOr<Job::Result> result = Job(options).Run();
    EXPECT_EQ(result.status(), absl::OkStatus());
    return result.ok() ? *result : Job::Result();
  }
  TrainedModel::Options Program() {
    TrainedModel::Options options;
    options.models.Add("line", &BuildLine);
    options.data_sets.Add("points", &OpenPoints);
    options.device = "cpu";
    return options;
  }
  // Expects the evaluation of the training run.
  static void ExpectEvaluation(const TrainedModel& model,
                               const Job::Result& result) {
    const auto evaluation = model.Evaluate();
    ASSERT_EQ(evaluation.status(), absl::OkStatus());
    EXPECT_EQ(evaluation->samples, kHeldOut);
    EXPECT_EQ(evaluation->loss, result.evaluation->loss);
    EXPECT_EQ(evaluation->accuracy, result.evaluation->accuracy);
  }

  const std::string run_ = MakeTestFolder() + "/run";
};

TEST_F(TrainedModelTest, LearnsAndPredictsOneNumber) {
  for (const char* loss : {"", "own"}) {
    SCOPED_TRACE(loss);
    const Job::Result result = Train(loss, /*classes=*/false);
    const auto model = TrainedModel::Open(run_, Program());
    ASSERT_EQ(model.status(), absl::OkStatus());
    ExpectEvaluation(*model, result);
    EXPECT_FALSE(model->Evaluate()->classes);
    EXPECT_LT(result.evaluation->loss, 1e-3);
    // More samples than a call of the model computes at a time.
    std::vector<float> features;
    for (int64_t i = 0; i < 100; ++i) {
      const std::vector<float> x = Points::At(5000 + i);
      features.insert(features.end(), x.begin(), x.end());
    }
    const auto outputs = model->Predict(features);
    ASSERT_EQ(outputs.status(), absl::OkStatus());
    EXPECT_FALSE(outputs->classes);
    EXPECT_EQ(outputs->samples, 100);
    ASSERT_EQ(outputs->per_sample, 1);
    for (int64_t i = 0; i < 100; ++i) {
      EXPECT_NEAR(outputs->values[i], Points::ValueOf(Points::At(5000 + i)),
                  0.1);
    }
  }
}

TEST_F(TrainedModelTest, LearnsAndPredictsTwoClasses) {
  for (const char* loss : {"binary", "softmax"}) {
    SCOPED_TRACE(loss);
    const Job::Result result = Train(loss, /*classes=*/true);
    const auto model = TrainedModel::Open(run_, Program());
    ASSERT_EQ(model.status(), absl::OkStatus());
    ExpectEvaluation(*model, result);
    EXPECT_TRUE(model->Evaluate()->classes);
    EXPECT_GT(result.evaluation->accuracy, 0.95);
    const auto outputs = model->PredictHeldOut();
    ASSERT_EQ(outputs.status(), absl::OkStatus());
    EXPECT_TRUE(outputs->classes);
    ASSERT_EQ(outputs->samples, kHeldOut);
    ASSERT_EQ(outputs->per_sample, 2);
    int64_t correct = 0;
    for (int64_t i = 0; i < kHeldOut; ++i) {
      const double* const p = &outputs->values[2 * i];
      EXPECT_NEAR(p[0] + p[1], 1, 1e-12);
      const bool positive = Points::ValueOf(Points::At(1000 + i)) > 0;
      correct += (p[1] > p[0]) == positive ? 1 : 0;
    }
    EXPECT_EQ(static_cast<double>(correct) / kHeldOut,
              result.evaluation->accuracy);
    // The same numbers for the same samples.
    std::vector<float> features;
    for (int64_t i = 0; i < kHeldOut; ++i) {
      const std::vector<float> x = Points::At(1000 + i);
      features.insert(features.end(), x.begin(), x.end());
    }
    EXPECT_EQ(model->Predict(features)->values, outputs->values);
  }
}

TEST_F(TrainedModelTest, MistakesAreNamed) {
  Train("", /*classes=*/false);
  const auto refused = [&](const std::string& run,
                           const TrainedModel::Options& options,
                           const std::string& message) {
    const absl::Status status = TrainedModel::Open(run, options).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
    return status.code();
  };
  EXPECT_EQ(refused(run_ + "/nowhere", Program(), "nowhere"),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(refused(run_, {}, "this program has no data set \"points\""),
            absl::StatusCode::kInvalidArgument);
  TrainedModel::Options average = Program();
  average.average = true;
  EXPECT_EQ(refused(run_, average, "average"), absl::StatusCode::kNotFound);
  TrainedModel::Options twice = Program();
  twice.models.Add("line", &BuildLine);
  EXPECT_EQ(refused(run_, twice, "\"line\" was added twice"),
            absl::StatusCode::kInvalidArgument);

  const auto model = TrainedModel::Open(run_, Program());
  ASSERT_EQ(model.status(), absl::OkStatus());
  EXPECT_EQ(model->Predict({1, 2, 3}).status(),
            absl::InvalidArgumentError(
                "TrainedModel::Predict: got 3 features, expected a multiple of "
                "2, the number of features of a sample"));
  TrainedModel::Options nothing = Program();
  nothing.set = {R"(data.external.config={"held_out": 0})",
                 "evaluation.disabled=true"};
  const auto without = TrainedModel::Open(run_, nothing);
  ASSERT_EQ(without.status(), absl::OkStatus());
  EXPECT_EQ(without->Evaluate().status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(without->PredictHeldOut().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace tributary
