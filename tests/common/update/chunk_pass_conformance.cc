#include "tests/common/update/chunk_pass_conformance.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_weights.h"
#include "tests/common/update/chunk_pass_driver.h"

namespace tributary {
namespace {

// -1: the same bits.
int64_t FirstDifference(const std::vector<float>& a,
                        const std::vector<float>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

void ExpectSameBits(const PassCase& c, const ChunkPassMaker& make) {
  const Trace expected = DrivePasses(c, &MakeBlockPasses);
  const Trace trace = DrivePasses(c, make);
  ASSERT_EQ(trace.weights.size(), expected.weights.size());
  ASSERT_EQ(trace.state.size(), expected.state.size());
  for (size_t i = 0; i < expected.weights.size(); ++i) {
    const int64_t at = FirstDifference(expected.weights[i], trace.weights[i]);
    EXPECT_EQ(at, -1) << "pass " << i << ": " << trace.weights[i][at]
                      << " in place of " << expected.weights[i][at];
    EXPECT_EQ(trace.payloads[i], expected.payloads[i]) << "pass " << i;
  }
  for (size_t i = 0; i < expected.state.size(); ++i) {
    EXPECT_EQ(FirstDifference(expected.state[i], trace.state[i]), -1)
        << "state " << i;
  }
  EXPECT_EQ(trace.squares, expected.squares);
}

const std::vector<std::string>& Optimizers() {
  static const auto* const optimizers = new std::vector<std::string>{
      "{sgd {learning_rate: 0.1 momentum: 0 weight_decay: 0.01}}",
      "{sgd {learning_rate: 0.1 momentum: 0.9 weight_decay: 0.01}}",
      "{sgd {learning_rate: 0.1 momentum: 0.9 nesterov: true}}",
      "{adam {learning_rate: 0.1 weight_decay: 0.01}}",
      "{adamw {learning_rate: 0.1 weight_decay: 0.01}}",
      "{sgd {learning_rate: 0.1 momentum: 0} average_decay: 0.9}",
      "{sgd {learning_rate: 0.1 momentum: 0.9} average_decay: 0.9}",
      "{adamw {learning_rate: 0.1 weight_decay: 0.01} average_decay: 0.9}",
      "{adagrad {learning_rate: 0.1 rate_decay: 0.1 weight_decay: 0.01}}",
      "{rmsprop {learning_rate: 0.1 weight_decay: 0.01}}",
      "{rmsprop {learning_rate: 0.1 momentum: 0.9 weight_decay: 0.01}}",
      "{adadelta {learning_rate: 1 weight_decay: 0.01}}",
      "{lion {learning_rate: 0.1 weight_decay: 0.01}}",
      "{adagrad {learning_rate: 0.1} average_decay: 0.9}",
      "{rmsprop {learning_rate: 0.1} average_decay: 0.9}",
      "{rmsprop {learning_rate: 0.1 momentum: 0.9} average_decay: 0.9}",
      "{adadelta {learning_rate: 1} average_decay: 0.9}",
      "{lion {learning_rate: 0.1 weight_decay: 0.01} average_decay: 0.9}",
      "{lamb {learning_rate: 0.1 weight_decay: 0.01}}",
      "{lamb {learning_rate: 0.1} average_decay: 0.9}"};
  return *optimizers;
}

}  // namespace

void ChunkPassConformanceTest::SetUp() {
  JobSpec job;
  job.mutable_batch()->set_micro_batches(1);
  const ArenaLayout layout = DrivenLayout();
  OptimizerSpec sgd;
  sgd.mutable_sgd()->set_learning_rate(1);
  const std::unique_ptr<Optimizer> optimizer = *Optimizer::Create(sgd);
  const absl::Status made =
      GetParam().make({&job, &layout, {0}, optimizer.get()}).status();
  if (absl::IsFailedPrecondition(made)) GTEST_SKIP() << made;
  ASSERT_TRUE(made.ok()) << made;
}

TEST_P(ChunkPassConformanceTest, EveryOptimizerHasTheCpusBits) {
  for (const std::string& optimizer : Optimizers()) {
    SCOPED_TRACE(optimizer);
    PassCase c = {optimizer};
    for (const bool together : {false, true}) {
      c.together = together;
      ExpectSameBits(c, GetParam().make);
    }
  }
}

TEST_P(ChunkPassConformanceTest, SumsHaveThemHoweverGradientsCome) {
  for (const WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16, ExchangeSpec::FLOAT16}) {
    for (const Way way : {Way::kMemory, Way::kPieces, Way::kBoth}) {
      for (const bool subtree : {false, true}) {
        SCOPED_TRACE(absl::StrCat(ExchangeSpec::WireDtype_Name(dtype), " ",
                                  static_cast<int>(way), " ", subtree));
        PassCase c = {Optimizers()[1], dtype, way};
        c.subtree = subtree;
        ExpectSameBits(c, GetParam().make);
      }
    }
  }
}

TEST_P(ChunkPassConformanceTest, SparseGradientsToo) {
  ExpectSameBits({Optimizers()[4], ExchangeSpec::FLOAT32, Way::kSparse},
                 GetParam().make);
}

TEST_P(ChunkPassConformanceTest, UpdatesThatAwaitTheNormToo) {
  for (const WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16}) {
    PassCase c = {Optimizers()[4], dtype};
    c.awaits_norm = true;
    ExpectSameBits(c, GetParam().make);
  }
}

TEST_P(ChunkPassConformanceTest, ASkippedStepChangesNothing) {
  PassCase c = {Optimizers()[3]};
  for (const bool awaits_norm : {false, true}) {
    c.awaits_norm = awaits_norm;
    for (const int64_t skipped : {0, 1}) {
      c.skipped = skipped;
      ExpectSameBits(c, GetParam().make);
    }
  }
}

TEST_P(ChunkPassConformanceTest, PassesGoOnFromTheStateOfOthers) {
  for (const bool awaits_norm : {false, true}) {
    for (const std::string& optimizer : Optimizers()) {
      PassCase c = {optimizer};
      c.awaits_norm = awaits_norm;
      const Trace expected = DrivePasses(c, &MakeBlockPasses);
      c.resumed = 2;
      const Trace trace = DrivePasses(c, GetParam().make);
      EXPECT_EQ(FirstDifference(expected.weights.back(), trace.weights.back()),
                -1)
          << optimizer;
    }
  }
}

TEST_P(ChunkPassConformanceTest, DenormalNumbersCountAsZero) {
  // Numbers that the scale takes across the least normal one.
  for (const double scale : {1 - std::ldexp(1, -24), std::ldexp(1, -10),
                             1 + std::ldexp(1, -23), 1e-38}) {
    for (const std::string& optimizer : Optimizers()) {
      PassCase c = {optimizer};
      c.gradient_scale = scale;
      ExpectSameBits(c, GetParam().make);
    }
  }
}

TEST_P(ChunkPassConformanceTest, AGradientThatIsNotFiniteShowsInTheSquares) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity()}) {
    // In a gradient, and in a statistic.
    for (const int64_t place : {int64_t{3}, int64_t{1530}}) {
      const ArenaLayout layout = DrivenLayout();
      JobSpec job;
      job.mutable_batch()->set_micro_batches(1);
      job.set_clip_norm(1);
      OptimizerSpec sgd;
      sgd.mutable_sgd()->set_learning_rate(1);
      const std::unique_ptr<Optimizer> optimizer = *Optimizer::Create(sgd);
      absl::StatusOr<ChunkPasses> made =
          GetParam().make({&job, &layout, {0}, optimizer.get()});
      ASSERT_TRUE(made.ok()) << made.status();
      std::vector<float> values(layout.ChunkSize(0), 0.5f);
      values[place] = bad;
      ChunkAggregator aggregator(1, ExchangeSpec::FLOAT32);
      NodeSum sum;
      sum.gradient =
          std::make_shared<GradientInMemory>(MemoryView{values.data()});
      aggregator.Add(std::move(sum));
      EXPECT_FALSE(
          std::isfinite(*made->passes[0]->SumOfSquares(aggregator.Take())));
    }
  }
}

// By a way that has nothing in common with the code: float64.
TEST_P(ChunkPassConformanceTest, AdamWIsNearItsFormula) {
  const ArenaLayout layout = DrivenLayout();
  JobSpec job;
  job.mutable_batch()->set_micro_batches(1);
  ASSERT_TRUE(SetField(&job, absl::StrCat("optimizer=", Optimizers()[4])).ok());
  const std::unique_ptr<Optimizer> optimizer =
      *Optimizer::Create(job.optimizer());
  absl::StatusOr<ChunkPasses> made =
      GetParam().make({&job, &layout, {0}, optimizer.get()});
  ASSERT_TRUE(made.ok()) << made.status();
  const int64_t elements = layout.ChunkSize(0);
  BufferPool buffers(elements), halves(elements / 2);
  ChunkWeights weights(&job.exchange(), elements, &buffers, &halves);
  const Buffer initial = buffers.Take();
  std::vector<float> gradient(elements);
  for (int64_t i = 0; i < elements; ++i) {
    initial.get()[i] = std::sin(0.1f * static_cast<float>(i));
    gradient[i] = std::cos(0.3f * static_cast<float>(i));
  }
  weights.Initialize(0, initial);
  ChunkAggregator aggregator(1, ExchangeSpec::FLOAT32);
  NodeSum node;
  node.gradient =
      std::make_shared<GradientInMemory>(MemoryView{gradient.data()});
  aggregator.Add(std::move(node));
  const TreeSum sum = aggregator.Take();
  ChunkWeights::Next next = weights.Begin(/*for_streams=*/false);
  ChunkPass::Arguments pass;
  pass.sum = &sum;
  pass.step.gradient_scale = 0.5;
  pass.step.learning_rate = 0.01;
  pass.next = &next;
  EXPECT_TRUE(made->passes[0]->Run(pass).ok());
  for (int64_t i = 0; i < 1500; ++i) {  // The first parameter, which decays.
    const double g = 0.5 * gradient[i];
    const double w = initial.get()[i];
    // The corrections undo the first step's averaging.
    const double expected =
        (1 - 0.01 * 0.01) * w - 0.01 * g / (std::abs(g) + 1e-8);
    ASSERT_NEAR(next.values.get()[i], expected, 1e-6) << i;
  }
}

}  // namespace tributary
