// Micro-batches that a device fetches while it computes the one before, on the
// emulated GPU, whose copies run as late as they may.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/model_harness.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

constexpr int64_t kSamples = 4;
constexpr int kSteps = 3;

struct Case {
  std::string name;
  std::string spec;
  DataInfo info;
  Precision precision = Precision::kFloat32;
};

std::unique_ptr<Device> EmulatedGpu(Precision precision) {
  emulated_gpu::ProtectMemory();
  return *CreateCudaDevice(/*ordinal=*/0, precision);
}

// Has the model fetch a batch when the device is busy.
class Prefetcher final : public ModelCalls {
 public:
  Prefetcher(Model* model, std::shared_ptr<const Batch> next)
      : model_(model), next_(std::move(next)) {}

  void DeviceBusy() override {
    ++calls;
    model_->Prefetch(next_);
  }

  int calls = 0;

 private:
  Model* const model_;
  const std::shared_ptr<const Batch> next_;
};

class PrefetchTest : public testing::TestWithParam<Case> {
 protected:
  PrefetchTest() {
    for (int step = 0; step <= kSteps; ++step) {
      // The last micro-batch of an epoch is shorter.
      const int64_t samples = step == 1 ? kSamples - 1 : kSamples;
      batches_.push_back(std::make_shared<const Batch>(
          MakeBatch(GetParam().info, samples, /*seed=*/step)));
    }
  }

  struct Result {
    double loss;
    std::vector<float> gradients;
    std::vector<float> vector_gradients;
  };
  Result Step(ModelHarness& model, int step, ModelCalls* observer) {
    const double loss = model.Step(*batches_[step], step, 0, observer).loss;
    return {loss, model.Gradients(), model.VectorGradients()};
  }
  void ExpectSame(const Result& a, const Result& b) {
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.gradients, b.gradients);
    EXPECT_EQ(a.vector_gradients, b.vector_gradients);
  }
  ModelHarness Make() {
    return ModelHarness(ParseModel(GetParam().spec), GetParam().info, kSamples,
                        EmulatedGpu(GetParam().precision));
  }

  std::vector<std::shared_ptr<const Batch>> batches_;
  ModelHarness plain_ = Make();
  ModelHarness prefetching_ = Make();
};

TEST_P(PrefetchTest, GivesTheSameBits) {
  for (int step = 0; step < kSteps; ++step) {
    Prefetcher prefetcher(prefetching_.model(), batches_[step + 1]);
    ExpectSame(Step(prefetching_, step, &prefetcher),
               Step(plain_, step, nullptr));
    EXPECT_EQ(prefetcher.calls, 1);
  }
}

TEST_P(PrefetchTest, AnotherBatchThanExpectedIsNoMistake) {
  Prefetcher prefetcher(prefetching_.model(), batches_[3]);
  ExpectSame(Step(prefetching_, 0, &prefetcher), Step(plain_, 0, nullptr));
  ExpectSame(Step(prefetching_, 2, nullptr), Step(plain_, 2, nullptr));
  ExpectSame(Step(prefetching_, 3, nullptr), Step(plain_, 3, nullptr));
}

TEST_P(PrefetchTest, AnEvaluationMayComeBetween) {
  const Batch held_out = MakeBatch(GetParam().info, kSamples, /*seed=*/9);
  Prefetcher prefetcher(prefetching_.model(), batches_[1]);
  ExpectSame(Step(prefetching_, 0, &prefetcher), Step(plain_, 0, nullptr));
  EXPECT_EQ(
      prefetching_.model()->Evaluate(held_out, prefetching_.weights())->loss,
      plain_.model()->Evaluate(held_out, plain_.weights())->loss);
  ExpectSame(Step(prefetching_, 1, nullptr), Step(plain_, 1, nullptr));
}

TEST_P(PrefetchTest, ABatchThatIsWrongIsRefusedWhenItIsComputed) {
  auto wrong = std::make_shared<Batch>(*batches_[1]);
  ++wrong->samples;
  prefetching_.model()->Prefetch(wrong);
  EXPECT_EQ(prefetching_.TryStep(*wrong).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(PrefetchTest, ACpuIsNeverBusy) {
  ModelHarness cpu(ParseModel(GetParam().spec), GetParam().info, kSamples);
  Prefetcher prefetcher(cpu.model(), batches_[1]);
  Step(cpu, 0, &prefetcher);
  EXPECT_EQ(prefetcher.calls, 0);
  cpu.model()->Prefetch(batches_[1]);
  Step(cpu, 1, nullptr);
}

constexpr char kMlp[] = "mlp { hidden: 20 dropout: 0.2 }";
constexpr char kDlrm[] = "dlrm { bottom: 5 top: 6 }";
constexpr char kGpt[] = "gpt { layers: 1 width: 8 heads: 2 context: 6 }";

INSTANTIATE_TEST_SUITE_P(
    Families, PrefetchTest,
    testing::Values(
        Case{"rows", kMlp, RowInfo(6, 3)},
        Case{"regression",
             "mlp { hidden: 5 activation: GELU } loss: MEAN_SQUARED_ERROR",
             RowInfo(7, 0)},
        Case{"images", "cnn { block { channels: 3 } }", ImageInfo(1, 8, 8, 4)},
        Case{"tokens", kGpt, TokenInfo(6, 20)},
        Case{"features", kDlrm, FeatureInfo(3, {4, 4, 4})},
        Case{"features_in_bfloat16", kDlrm, FeatureInfo(3, {4, 4, 4}),
             Precision::kBfloat16},
        Case{"rows_in_bfloat16", kMlp, RowInfo(6, 3), Precision::kBfloat16},
        Case{"tokens_in_bfloat16", kGpt, TokenInfo(6, 20),
             Precision::kBfloat16}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tributary
