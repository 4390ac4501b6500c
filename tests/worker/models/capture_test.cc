// Micro-batches whose work is captured beside the same ones queued operation by
// operation, on the emulated GPU, which runs both as late as it may.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/model_harness.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

constexpr int64_t kSamples = 3;
constexpr int64_t kMaxSamples = 8;  // Of an evaluation.

struct Case {
  std::string name;
  std::string spec;
  DataInfo info;
  Precision precision = Precision::kFloat32;
};

ModelHarness OnEmulatedGpu(const Case& model) {
  return ModelHarness(ParseModel(model.spec), model.info, kMaxSamples,
                      *CreateCudaDevice(/*ordinal=*/0, model.precision));
}

struct Result {
  LossSums loss;
  std::vector<float> gradients;
};

void ExpectSame(const Result& a, const Result& b) {
  EXPECT_EQ(a.loss.loss, b.loss.loss);
  EXPECT_EQ(a.loss.correct, b.loss.correct);
  EXPECT_EQ(a.loss.sample_count, b.loss.sample_count);
  EXPECT_EQ(a.gradients, b.gradients);
}

class CaptureTest : public testing::TestWithParam<Case> {
 protected:
  ~CaptureTest() override { emulated_gpu::RefuseCaptures(false); }

  // Several steps of several micro-batches, the last of them shorter, with
  // other weights in each step, and an evaluation between two.
  std::vector<Result> Train(ModelHarness* model) {
    std::vector<Result> results;
    for (int step = 0; step < 4; ++step) {
      SetWeights(step, model);
      for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        const Batch batch = MakeBatch(GetParam().info, kSamples - micro_batch,
                                      /*seed=*/step + micro_batch);
        const LossSums loss = model->Step(batch, step, micro_batch);
        results.push_back({loss, model->Gradients()});
      }
      if (step != 2) continue;
      const Batch held_out = MakeBatch(GetParam().info, kMaxSamples, 9);
      results.push_back(
          {*model->model()->Evaluate(held_out, model->weights()), {}});
    }
    return results;
  }

  static void SetWeights(int step, ModelHarness* model) {
    std::vector<float> weights(model->layout().arena_elements());
    model->model()->Initialize(/*seed=*/step, model->layout(), weights.data());
    model->device()->CopyFromHost(model->weights(), weights.data(),
                                  weights.size() * sizeof(float));
  }
};

TEST_P(CaptureTest, GivesTheSameBits) {
  ModelHarness capturing = OnEmulatedGpu(GetParam());
  const int64_t before = emulated_gpu::GraphLaunches();
  const std::vector<Result> results = Train(&capturing);
  EXPECT_TRUE(capturing.model()->capture_status().ok())
      << capturing.model()->capture_status();
  // Forward and backward of all steps but the first.
  EXPECT_EQ(emulated_gpu::GraphLaunches() - before, 3 * 2 * 2);

  emulated_gpu::RefuseCaptures(true);
  ModelHarness plain = OnEmulatedGpu(GetParam());
  const std::vector<Result> expected = Train(&plain);
  EXPECT_EQ(emulated_gpu::GraphLaunches() - before, 3 * 2 * 2);
  EXPECT_THAT(plain.model()->capture_status(),
              StatusIs(absl::StatusCode::kInternal,
                       testing::HasSubstr("cudaStreamEndCapture")));
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) {
    SCOPED_TRACE(i);
    ExpectSame(results[i], expected[i]);
  }
  // What has not been captured at all.
  for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
    SCOPED_TRACE(micro_batch);
    ModelHarness fresh = OnEmulatedGpu(GetParam());
    SetWeights(3, &fresh);
    const Batch batch = MakeBatch(GetParam().info, kSamples - micro_batch,
                                  /*seed=*/3 + micro_batch);
    const LossSums loss = fresh.Step(batch, 3, micro_batch);
    ExpectSame({loss, fresh.Gradients()},
               results[results.size() - 2 + micro_batch]);
  }
}

TEST_P(CaptureTest, GoesOnWithoutWhenCapturesFailLater) {
  ModelHarness model = OnEmulatedGpu(GetParam());
  const Batch batch = MakeBatch(GetParam().info, kSamples, /*seed=*/1);
  SetWeights(0, &model);
  const LossSums loss = model.Step(batch);
  const Result expected{loss, model.Gradients()};
  model.Step(batch);
  emulated_gpu::RefuseCaptures(true);
  const Batch other = MakeBatch(GetParam().info, kSamples - 1, /*seed=*/2);
  for (int i = 0; i < 3; ++i) model.Step(other);
  EXPECT_THAT(model.model()->capture_status(),
              StatusIs(absl::StatusCode::kInternal,
                       testing::HasSubstr("cudaStreamEndCapture")));
  const LossSums again = model.Step(batch);
  ExpectSame({again, model.Gradients()}, expected);
}

// Gives the micro-batch up when weights are asked for.
class Leaver final : public ModelCalls {
 public:
  bool Await(int64_t, int64_t) override { return false; }
};

TEST_P(CaptureTest, AMicroBatchThatWasGivenUpIsNoReasonToCapture) {
  ModelHarness model = OnEmulatedGpu(GetParam());
  const Batch batch = MakeBatch(GetParam().info, kSamples, /*seed=*/1);
  const int64_t before = emulated_gpu::GraphLaunches();
  Leaver leaver;
  EXPECT_EQ(model.TryStep(batch, /*step=*/0, /*micro_batch=*/0, &leaver)
                .status()
                .code(),
            absl::StatusCode::kAborted);
  model.Step(batch);
  EXPECT_EQ(emulated_gpu::GraphLaunches(), before);
  model.Step(batch);
  EXPECT_EQ(emulated_gpu::GraphLaunches(), before + 2);
  EXPECT_TRUE(model.model()->capture_status().ok());
}

INSTANTIATE_TEST_SUITE_P(
    Families, CaptureTest,
    testing::Values(
        Case{"mlp", "mlp { hidden: 20 hidden: 9 dropout: 0.3 }", RowInfo(6, 3)},
        Case{"cnn",
             "cnn { block { channels: 3 } block { channels: 4 pool: AVERAGE } "
             "hidden: 9 dropout: 0.3 }",
             ImageInfo(1, 8, 8, 4)},
        Case{"resnet", "resnet { layers: [1, 1] width: 3 }",
             ImageInfo(1, 8, 8, 4)},
        Case{"gpt",
             "gpt { layers: 2 width: 8 heads: 2 context: 6 dropout: 0.2 }",
             TokenInfo(6, 20)},
        Case{"mlp_in_bfloat16", "mlp { hidden: 20 dropout: 0.3 }",
             RowInfo(6, 3), Precision::kBfloat16},
        Case{"gpt_in_bfloat16",
             "gpt { layers: 1 width: 8 heads: 2 context: 6 dropout: 0.2 }",
             TokenInfo(6, 20), Precision::kBfloat16}),
    [](const auto& info) { return info.param.name; });

// Copies what it is told of as soon as it may be.
class CopyingObserver final : public ModelCalls {
 public:
  explicit CopyingObserver(ModelHarness* model) : model_(model) {}

  bool Await(int64_t begin, int64_t) override {
    needed.push_back(begin);
    return true;
  }
  void Ready(int64_t begin) override {
    const std::unique_ptr<Event> event =
        *model_->device()->copies()->CreateEvent();
    model_->device()->copies()->Record(event.get());
    const std::unique_ptr<CopyStream> copies =
        *model_->device()->copies()->CreateStream();
    copies->Await(*event);
    std::vector<float> gradients(model_->layout().arena_elements());
    copies->CopyToHost(gradients.data(), model_->gradients(),
                       gradients.size() * sizeof(float));
    EXPECT_TRUE(copies->Synchronize().ok());
    ready.emplace_back(begin, std::move(gradients));
  }

  std::vector<int64_t> needed;
  // With all gradients as they are then.
  std::vector<std::pair<int64_t, std::vector<float>>> ready;

 private:
  ModelHarness* const model_;
};

TEST(WeightCopiesOnAGpuTest, AreMadeWithoutWaiting) {
  const auto waits = [](int layers) {
    const Case gpt = {"",
                      absl::StrCat("gpt { layers: ", layers,
                                   " width: 8 heads: 2 context: 6 }"),
                      TokenInfo(6, 20), Precision::kBfloat16};
    ModelHarness model = OnEmulatedGpu(gpt);
    const Batch batch = MakeBatch(gpt.info, kSamples, /*seed=*/1);
    model.Step(batch);
    const emulated_gpu::Calls before = emulated_gpu::CountCalls();
    model.Step(batch);
    return (emulated_gpu::CountCalls() - before).waits;
  };
  EXPECT_EQ(waits(/*layers=*/3), waits(/*layers=*/1));
}

TEST(CaptureOfLargeLayersTest, GradientsLeaveBeforeAllAreMade) {
  // Two layers of a segment each, and a small one.
  ModelHarness model = OnEmulatedGpu(
      {"", "mlp { hidden: 1100 hidden: 1000 }", RowInfo(1000, 3)});
  const Batch batch = MakeBatch(RowInfo(1000, 3), kSamples, /*seed=*/1);
  const int64_t second = model.FindParameter("hidden.1.weight").offset;
  const int64_t third = model.FindParameter("output.weight").offset;
  model.Step(batch);
  const std::vector<float> expected = model.Gradients();
  for (int step = 0; step < 2; ++step) {
    const std::vector<float> zeros(expected.size());
    model.device()->CopyFromHost(model.gradients(), zeros.data(),
                                 zeros.size() * sizeof(float));
    CopyingObserver observer(&model);
    const int64_t before = emulated_gpu::GraphLaunches();
    model.Step(batch, /*step=*/0, /*micro_batch=*/0, &observer);
    EXPECT_EQ(emulated_gpu::GraphLaunches() - before, 2 * 3);
    ASSERT_EQ(observer.ready.size(), 3);
    EXPECT_EQ(observer.ready.back().first, 0);
    for (const auto& [begin, gradients] : observer.ready) {
      for (size_t i = 0; i < gradients.size(); ++i) {
        const bool ready = static_cast<int64_t>(i) >= begin;
        ASSERT_EQ(gradients[i], ready ? expected[i] : 0) << i;
      }
    }
    EXPECT_EQ(observer.ready[1].first, second);
    // The weights of a segment are needed together.
    EXPECT_EQ(observer.needed, (std::vector<int64_t>{0, second, third}));
  }
}

}  // namespace
}  // namespace tributary
