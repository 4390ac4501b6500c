#include "worker/models/synthetic_model.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"

namespace tributary {
namespace {

ModelHarness Make(int64_t parameters) {
  return ModelHarness(
      ParseModel(absl::StrCat("synthetic { parameters: ", parameters, " }")),
      RowInfo(/*features=*/0, /*classes=*/10), /*max_samples=*/4);
}

Batch Samples(int64_t count) {
  Batch batch;
  batch.samples = count;
  batch.labels.resize(count);
  return batch;
}

// Of `samples` samples, gaps included.
std::vector<float> Expected(int64_t parameters, int64_t samples) {
  std::vector<float> gradients((parameters + 15) / 16 * 16, 0.0f);
  for (int64_t i = 0; i < parameters; ++i) {
    gradients[i] = static_cast<float>(samples * (i % 251 + 1)) / 256;
  }
  return gradients;
}

TEST(SyntheticModelTest, GradientIsAFixedPatternTimesTheSamples) {
  for (const int64_t parameters : {1, 16, 250, 251, 252, 1024, 5003}) {
    ModelHarness harness = Make(parameters);
    EXPECT_EQ(harness.layout().parameter_count(), parameters);
    for (const int64_t samples : {1, 4, 0, 2}) {
      const LossSums sums = harness.Step(Samples(samples));
      EXPECT_EQ(sums.loss, 0);
      EXPECT_EQ(sums.correct, 0);
      EXPECT_EQ(sums.sample_count, samples);
      EXPECT_EQ(harness.Gradients(), Expected(parameters, samples));
    }
  }
}

TEST(SyntheticModelTest, RestoresAnArenaThatWasAddedToInPart) {
  constexpr int64_t kParameters = 5003;
  ModelHarness harness = Make(kParameters);
  harness.Step(Samples(2));
  // Any run of 4 KiB, and the last, shorter one.
  for (const int64_t begin : {0, 1, 1000, 1024, 3500, 4097}) {
    for (int64_t i = begin; i < std::min(begin + 1024, kParameters); ++i) {
      harness.gradients()[i] *= 2;
    }
    harness.Step(Samples(2));
    EXPECT_EQ(harness.Gradients(), Expected(kParameters, 2)) << begin;
  }
}

TEST(SyntheticModelTest, LeavesAnArenaThatIsRightAlone) {
  ModelHarness harness = Make(100);
  harness.Step(Samples(1));
  // Not one of those that are looked at.
  harness.gradients()[5] = 7;
  harness.Step(Samples(1));
  EXPECT_EQ(harness.gradients()[5], 7);
}

TEST(SyntheticModelTest, StartsAtZero) {
  ModelHarness harness = Make(100);
  std::vector<float> weights(harness.layout().arena_elements(), NAN);
  harness.model()->Initialize(/*seed=*/5, harness.layout(), weights.data());
  EXPECT_EQ(weights, std::vector<float>(112, 0.0f));
}

class RefusingRecorder : public ModelCalls {
 public:
  bool Await(int64_t begin, int64_t end) override {
    needed.emplace_back(begin, end);
    return !refuse;
  }
  void Ready(int64_t begin) override { ready.push_back(begin); }

  bool refuse = false;
  std::vector<std::pair<int64_t, int64_t>> needed;
  std::vector<int64_t> ready;
};

TEST(SyntheticModelTest, WaitsForAllWeightsBeforeItIsDone) {
  ModelHarness harness = Make(100);
  RefusingRecorder recorder;
  harness.Step(Samples(1), /*step=*/0, /*micro_batch=*/0, &recorder);
  EXPECT_EQ(recorder.needed,
            (std::vector<std::pair<int64_t, int64_t>>{{0, 112}}));
  EXPECT_EQ(recorder.ready, std::vector<int64_t>{0});

  recorder.refuse = true;
  recorder.ready.clear();
  EXPECT_EQ(harness.TryStep(Samples(1), 0, 0, &recorder).status().code(),
            absl::StatusCode::kAborted);
  EXPECT_TRUE(recorder.ready.empty());
}

TEST(SyntheticModelTest, EvaluatesToZeroAndPredictsNothing) {
  ModelHarness harness = Make(100);
  const auto sums = harness.model()->Evaluate(Samples(3), harness.weights());
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(sums->loss, 0);
  EXPECT_EQ(sums->sample_count, 3);
  std::vector<float> logits(10);
  EXPECT_EQ(
      harness.model()
          ->NextTokenLogits({1}, harness.weights(), absl::MakeSpan(logits))
          .code(),
      absl::StatusCode::kUnimplemented);
}

TEST(SyntheticModelTest, RefusesToBeEmpty) {
  const auto model = SyntheticModel::Create(SyntheticSpec());
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(model.status().message(),
            "model.synthetic.parameters: 0 is not above 0");
}

}  // namespace
}  // namespace tributary
