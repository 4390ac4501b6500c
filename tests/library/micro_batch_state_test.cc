// The calls of a program for one micro-batch: what reaches the trainer, and
// which error a wrong call yields.
#include "library/micro_batch_state.h"

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/numerics/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "library/parameter_declarations.h"
#include "tests/support/model_calls.h"
#include "tests/support/status_matchers.h"
#include "worker/device/device.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class FakeObserver final : public ModelCalls {
 public:
  bool Await(int64_t begin, int64_t end) override {
    needed.emplace_back(begin, end);
    return !gives_up;
  }
  void SetSampleCount(int64_t count) override { counts.push_back(count); }
  absl::Status SetLearningRate(double rate) override {
    rates.push_back(rate);
    return rates_status;
  }
  void Ready(int64_t begin) override { ready.push_back(begin); }

  bool gives_up = false;
  std::vector<std::pair<int64_t, int64_t>> needed;
  std::vector<int64_t> counts;
  std::vector<double> rates;
  absl::Status rates_status;
  std::vector<int64_t> ready;
};

// Parameters "a" (3 elements at 0), "b" (20 at 16) and "c" (1 at 48); the arena
// has 64 elements.
class MicroBatchStateTest : public ::testing::Test {
 protected:
  MicroBatchStateTest()
      : declared_(*ParameterDeclarations::Create({{"a", {3}, nullptr},
                                                  {"b", {4, 5}, nullptr},
                                                  {"c", {1}, nullptr}})),
        weights_(64),
        gradients_(64, kNaN) {
    for (int i = 0; i < 64; ++i) weights_[i] = static_cast<float>(i);
    batch_.samples = 2;
    batch_.indexes = {7, 3};
    batch_.epoch = 5;
    work_.batch = &batch_;
    work_.weights = &view_;
    work_.gradients = &sink_;
    work_.observer = &observer_;
    work_.seed = 11;
    work_.step = 17;
    work_.micro_batch = 3;
  }

  MicroBatchState Make() {
    return MicroBatchState(
        &work_, &declared_.layout(),
        [this](const absl::Status& status) { ended_.push_back(status); });
  }
  static void Fill(MicroBatchState* state, int parameter, float value = 1) {
    for (float& element : state->gradient(parameter)) element = value;
  }
  // Gives all gradients from the last parameter to the first.
  static void FillAll(MicroBatchState* state) {
    for (const int parameter : {2, 1, 0}) {
      Fill(state, parameter);
      state->Ready(parameter);
    }
  }
  static auto IsError(const std::string& name) {
    return StatusIs(
        absl::StatusCode::kInvalidArgument,
        AllOf(StartsWith("micro-batch 3 of step 17: "), HasSubstr(name)));
  }

  const ParameterDeclarations declared_;
  std::vector<float> weights_;
  std::vector<float> gradients_;
  ObservedWeights view_{weights_.data(), &observer_};
  ObservedGradients sink_{gradients_.data(), &observer_};
  Batch batch_;
  FakeObserver observer_;
  Work work_;
  std::vector<absl::Status> ended_;
};

TEST_F(MicroBatchStateTest, DescribesTheMicroBatch) {
  MicroBatchState state = Make();
  EXPECT_EQ(state.step(), 17);
  EXPECT_EQ(state.number(), 3);
  EXPECT_EQ(state.epoch(), 5);
  EXPECT_THAT(state.indexes(), ElementsAre(7, 3));
}

TEST_F(MicroBatchStateTest, WaitsOnceForTheWeightsOfEachParameter) {
  MicroBatchState state = Make();
  EXPECT_THAT(state.weights(2), ElementsAre(48));
  EXPECT_THAT(state.weights(0), ElementsAre(0, 1, 2));
  EXPECT_THAT(state.weights(2), SizeIs(1));
  EXPECT_THAT(observer_.needed,
              ElementsAre(std::pair(48, 49), std::pair(0, 3)));
}

TEST_F(MicroBatchStateTest, PassesGradientsOnFromTheEndOfTheArena) {
  MicroBatchState state = Make();
  Fill(&state, 0);
  state.Ready(0);
  EXPECT_THAT(observer_.ready, IsEmpty());
  Fill(&state, 2);
  state.Ready(2);
  EXPECT_THAT(observer_.ready, ElementsAre(48));
  state.Add(1, std::vector<float>(20, 2));
  EXPECT_THAT(observer_.ready, ElementsAre(48, 0));
  EXPECT_THAT(ended_, IsEmpty());
  state.Finish(1.5);
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus()));
  EXPECT_EQ(work_.result.loss, 1.5);
  // The gaps are zero, whatever the arena contained.
  for (int i = 0; i < 64; ++i) {
    const bool b = i >= 16 && i < 36;
    EXPECT_EQ(gradients_[i], i < 3 || i == 48 ? 1 : b ? 2 : 0) << i;
  }
}

TEST_F(MicroBatchStateTest, RequiresAllWeightsBeforeTheFirstGradientLeaves) {
  MicroBatchState state = Make();
  state.Ready(2);
  EXPECT_THAT(observer_.needed, ElementsAre(std::pair(0, 64)));
}

TEST_F(MicroBatchStateTest, AProgramNeedsNoLoss) {
  MicroBatchState state = Make();
  FillAll(&state);
  state.Finish(std::nullopt);
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus()));
  EXPECT_FALSE(work_.result.has_loss);
}

TEST_F(MicroBatchStateTest, StatesTheSampleCountBeforeTheFirstGradient) {
  MicroBatchState state = Make();
  state.SetSampleCount(9);
  EXPECT_THAT(observer_.counts, IsEmpty());
  state.Ready(2);
  EXPECT_THAT(observer_.counts, ElementsAre(9));
  EXPECT_THAT(observer_.ready, ElementsAre(48));
}

TEST_F(MicroBatchStateTest, StatesTheLearningRateBeforeTheFirstGradient) {
  MicroBatchState state = Make();
  state.SetLearningRate(0.5);
  EXPECT_THAT(observer_.rates, IsEmpty());
  FillAll(&state);
  EXPECT_THAT(observer_.rates, ElementsAre(0.5));
  EXPECT_EQ(state.status(), absl::OkStatus());
  state.SetLearningRate(0.25);
  EXPECT_THAT(state.status(), IsError("SetLearningRate"));
}

TEST_F(MicroBatchStateTest, ARateThatIsRefusedIsAnError) {
  MicroBatchState state = Make();
  observer_.rates_status = absl::InvalidArgumentError("another rate");
  state.SetLearningRate(0.5);
  FillAll(&state);
  EXPECT_THAT(state.status(), IsError("another rate"));
}

TEST_F(MicroBatchStateTest, AMicroBatchThatIsGivenUpHasZerosAndSendsNothing) {
  observer_.gives_up = true;
  MicroBatchState state = Make();
  EXPECT_FALSE(state.aborted());
  EXPECT_THAT(state.weights(1), SizeIs(20));
  EXPECT_THAT(state.weights(1), Each(0));
  EXPECT_TRUE(state.aborted());
  FillAll(&state);
  state.Finish(std::nan(""));
  EXPECT_THAT(observer_.ready, IsEmpty());
  ASSERT_THAT(ended_, SizeIs(1));
  EXPECT_TRUE(absl::IsAborted(ended_[0])) << ended_[0];
  EXPECT_TRUE(state.status().ok()) << state.status();
}

TEST_F(MicroBatchStateTest, SpansOfAMicroBatchThatIsGivenUpStayValid) {
  observer_.gives_up = true;
  MicroBatchState state = Make();
  // From the smallest parameter to the largest.
  const absl::Span<const float> weights = state.weights(2);
  const absl::Span<float> gradient = state.gradient(2);
  state.Ready(2);
  const absl::Span<float> spare = state.gradient(2);
  state.weights(1);
  state.gradient(1);
  EXPECT_EQ(state.weights(2).data(), weights.data());
  EXPECT_NE(gradient.data(), spare.data());
  state.Ready(1);
  state.gradient(1);
  EXPECT_EQ(state.gradient(2).data(), spare.data());
}

// A CPU device stands for a GPU: what counts is that there is one.
TEST_F(MicroBatchStateTest, SpansOnAGpuAreInItsMemoryOrEmpty) {
  const std::unique_ptr<Device> device = CreateCpuDevice();
  work_.device = device.get();
  observer_.gives_up = true;
  MicroBatchState state = Make();
  EXPECT_EQ(state.weights(1).data(), weights_.data() + 16);
  EXPECT_TRUE(state.aborted());
  EXPECT_EQ(state.weights(2).data(), weights_.data() + 48);
  EXPECT_EQ(state.gradient(2).data(), gradients_.data() + 48);
  FillAll(&state);
  state.Finish(0);
  EXPECT_THAT(state.weights(1), IsEmpty());
  EXPECT_THAT(state.gradient(1), IsEmpty());
}

TEST_F(MicroBatchStateTest, AMicroBatchThatIsGivenUpNeedNotBeFinished) {
  observer_.gives_up = true;
  MicroBatchState state = Make();
  state.weights(0);
  state.Leave();
  ASSERT_THAT(ended_, SizeIs(1));
  EXPECT_TRUE(absl::IsAborted(ended_[0])) << ended_[0];
  EXPECT_TRUE(state.status().ok()) << state.status();
}

TEST_F(MicroBatchStateTest, GivenUpBeforeTheFirstGradientLeaves) {
  MicroBatchState state = Make();
  state.weights(1);
  observer_.gives_up = true;
  FillAll(&state);
  state.Finish(1);
  EXPECT_THAT(observer_.ready, IsEmpty());
  ASSERT_THAT(ended_, SizeIs(1));
  EXPECT_TRUE(absl::IsAborted(ended_[0])) << ended_[0];
}

TEST_F(MicroBatchStateTest, RandomNumbersDependOnStepMicroBatchAndLayer) {
  MicroBatchState state = Make();
  Random random = state.random(2);
  const RandomStream stream = {11, RandomPurpose::kDropout, 17, 3 * 4096 + 2};
  for (int block = 0; block < 3; ++block) {
    for (const uint32_t bits : stream.Block(block)) {
      EXPECT_EQ(random.Bits(), bits);
    }
  }
  EXPECT_EQ(random.Uniform(), UniformFloat(stream.Block(3)[0]));
}

TEST_F(MicroBatchStateTest, EndsWithAnErrorThatNamesTheMistake) {
  const std::pair<const char*, std::function<void(MicroBatchState*)>> cases[] =
      {
          {"parameter b has no gradient",
           [](auto* state) {
             for (const int parameter : {2, 0}) {
               Fill(state, parameter);
               state->Ready(parameter);
             }
             state->Finish(1);
           }},
          {"gradient of b has 19 values, expected 20",
           [](auto* state) { state->Add(1, std::vector<float>(19)); }},
          {"gradient of b was given twice",
           [](auto* state) {
             FillAll(state);
             state->Ready(1);
           }},
          {"parameter -1, but the program has declared 3",
           [](auto* state) {
             EXPECT_THAT(state->gradient(-1), IsEmpty());
             EXPECT_THAT(state->weights(3), IsEmpty());
           }},
          {"SetSampleCount was called after",
           [](auto* state) {
             FillAll(state);
             state->SetSampleCount(1);
           }},
          {"SetSampleCount(-1)",
           [](auto* state) { state->SetSampleCount(-1); }},
          {"layer 4096", [](auto* state) { state->random(4096); }},
          {"the loss is NaN",
           [](auto* state) {
             FillAll(state);
             state->Finish(std::nan(""));
           }},
          {"call Finish", [](auto* state) { FillAll(state); }},
      };
  for (const auto& [name, calls] : cases) {
    ended_.clear();
    MicroBatchState state = Make();
    calls(&state);
    state.Leave();
    EXPECT_THAT(ended_, ElementsAre(IsError(name)));
  }
}

TEST_F(MicroBatchStateTest, RefusesToReopenAGradient) {
  MicroBatchState state = Make();
  FillAll(&state);
  Fill(&state, 1, 5);
  state.Finish(1);
  EXPECT_THAT(ended_, ElementsAre(IsError("gradient of b was ready")));
  EXPECT_EQ(gradients_[16], 1);
}

// Whether such a step is skipped is the job's decision.
TEST_F(MicroBatchStateTest, SendsALossThatIsNaNWithItsGradients) {
  MicroBatchState state = Make();
  for (const int parameter : {2, 1, 0}) {
    Fill(&state, parameter, kNaN);
    state.Ready(parameter);
  }
  state.Finish(std::nan(""));
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus()));
}

TEST_F(MicroBatchStateTest, CallsAfterFinishAreErrorsOfTheNextWork) {
  MicroBatchState state = Make();
  FillAll(&state);
  state.Finish(1);
  ASSERT_THAT(ended_, ElementsAre(absl::OkStatus()));
  // The trainer may use the arenas again.
  Fill(&state, 0, 5);
  EXPECT_EQ(gradients_[0], 1);
  EXPECT_THAT(state.weights(1), Each(0));
  EXPECT_THAT(state.status(), IsError("gradient was called after Finish"));
  state.Leave();
  EXPECT_THAT(ended_, SizeIs(1));
}

TEST_F(MicroBatchStateTest, RefusesASecondFinish) {
  MicroBatchState state = Make();
  FillAll(&state);
  state.Finish(1);
  state.Finish(1);
  EXPECT_THAT(state.status(), IsError("Finish was called twice"));
  EXPECT_THAT(ended_, SizeIs(1));
}

class PieceStateTest : public MicroBatchStateTest {
 protected:
  PieceStateTest() {
    batch_.indexes = {20, 21, 22};
    work_.evaluates = true;
    work_.observer = nullptr;
    work_.gradients = nullptr;
  }
  PieceState MakePiece() {
    return PieceState(
        &work_, &declared_.layout(),
        [this](const absl::Status& status) { ended_.push_back(status); });
  }
  static auto IsError(const std::string& name) {
    return StatusIs(
        absl::StatusCode::kInvalidArgument,
        AllOf(StartsWith("evaluation of samples 20 to 22: "), HasSubstr(name)));
  }
};

TEST_F(PieceStateTest, ReportsTheSums) {
  PieceState piece = MakePiece();
  EXPECT_EQ(piece.begin(), 20);
  EXPECT_EQ(piece.end(), 23);
  EXPECT_THAT(piece.weights(0), ElementsAre(0, 1, 2));
  piece.Report(2.5, 1, 3);
  EXPECT_THAT(ended_, ElementsAre(absl::OkStatus()));
  EXPECT_EQ(work_.result.loss, 2.5);
  EXPECT_EQ(work_.result.correct, 1);
  EXPECT_EQ(work_.result.sample_count, 3);
  piece.Leave();
  EXPECT_THAT(ended_, SizeIs(1));
}

TEST_F(PieceStateTest, RefusesWrongCountsAndToGoOnWithoutReport) {
  MakePiece().Report(1, 4, 3);
  MakePiece().Leave();
  EXPECT_THAT(ended_,
              ElementsAre(IsError("4 correct of 3"), IsError("call Report")));
}

TEST_F(PieceStateTest, RefusesASecondReport) {
  PieceState piece = MakePiece();
  piece.Report(1, 0, 3);
  piece.Report(1, 0, 3);
  EXPECT_THAT(ended_, SizeIs(1));
  EXPECT_THAT(piece.status(), IsError("Report was called twice"));
}

}  // namespace
}  // namespace tributary
