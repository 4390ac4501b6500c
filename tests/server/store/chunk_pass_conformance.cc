#include "tests/server/store/chunk_pass_conformance.h"

#include <algorithm>
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
#include "common/numerics/half.h"
#include "common/numerics/philox.h"
#include "server/store/aggregation/chunk_aggregator.h"
#include "server/store/aggregation/gradient_source.h"
#include "server/store/block_pass.h"
#include "server/store/chunk_weights.h"

namespace tributary {
namespace {

constexpr int kLeaves = 4;
constexpr int64_t kSteps = 3;

// Chunks that are no multiple of a block, of TreeSum's or of a kernel's, with
// gaps and with parameters over their borders.
ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(4112);
  const std::vector<std::pair<int64_t, OptimizerGroup>> parameters = {
      {1500, DECAY}, {7, NO_DECAY},    {33, STATISTICS}, {3000, DECAY},
      {1, NO_DECAY}, {50, STATISTICS}, {2000, NO_DECAY}, {16, DECAY},
      {2100, DECAY}, {300, STATISTICS}};
  for (const auto& [size, group] : parameters) {
    auto* parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", table.parameter_size()));
    parameter->add_shape(size);
    parameter->set_group(group);
  }
  return *ArenaLayout::Create(table);
}

// Numbers of many sizes, some of them denormal, some zeros of either sign. Sums
// of them are finite in FLOAT16.
float Number(const RandomStream& numbers, int64_t i) {
  const PhiloxBlock block = numbers.Block(i);
  const float fraction = 2 * UniformFloat(block[0]) - 1;
  switch (block[1] % 8) {
    case 0:
      return std::ldexp(fraction, -120 - static_cast<int>(block[2] % 20));
    case 1:
      return fraction < 0 ? -0.0f : 0.0f;
    case 2:
      return std::ldexp(fraction, static_cast<int>(block[2] % 32) - 20);
    default:
      return fraction;
  }
}

// As from the wire: not in one piece.
class InPieces final : public GradientSource {
 public:
  InPieces(std::vector<float> values, bool sparse)
      : values_(std::move(values)), sparse_(sparse) {}

  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    std::copy_n(values_.data() + begin, count, scratch);
    return scratch;
  }
  bool sparse() const override { return sparse_; }
  void Add(int64_t begin, int64_t count, float* sum) const override {
    for (int64_t i = 0; i < count; ++i) {
      if (values_[begin + i] != 0) sum[i] += values_[begin + i];
    }
  }

 private:
  const std::vector<float> values_;
  const bool sparse_;
};

// In a worker's memory, and rounded where it is read.
class InMemory final : public GradientSource {
 public:
  InMemory(WireDtype dtype, std::vector<float> values)
      : dtype_(dtype), values_(std::move(values)) {}

  const float* Read(int64_t begin, int64_t count,
                    float* scratch) const override {
    RoundedCopy(dtype_, values_.data() + begin, scratch, count);
    return scratch;
  }
  const float* InOnePiece() const override { return values_.data(); }

 private:
  const WireDtype dtype_;
  const std::vector<float> values_;
};

enum class Way { kMemory, kPieces, kBoth, kSparse };

struct Case {
  std::string optimizer;
  WireDtype dtype = ExchangeSpec::FLOAT32;
  Way way = Way::kBoth;
  bool awaits_norm = false;
  float gradient_scale = 0.3f;
  // A worker's subtree of half the leaves.
  bool subtree = false;
  int64_t skipped = -1;  // A step.
  int64_t resumed = -1;  // A step before which all passes are made anew.
};

// What all chunks have come to, step by step.
struct Trace {
  std::vector<std::vector<float>> weights;
  std::vector<std::vector<float>> state;
  std::vector<std::string> payloads;  // Of weights, as streams get them.
  std::vector<double> squares;
};

class Driver {
 public:
  explicit Driver(const Case& c) : case_(c), layout_(Layout()) {
    EXPECT_TRUE(SetField(&job_, absl::StrCat("optimizer=", c.optimizer)).ok());
    job_.mutable_exchange()->set_wire_dtype(c.dtype);
    job_.mutable_batch()->set_micro_batches(kLeaves);
    job_.set_clip_norm(c.awaits_norm ? 1 : 0);
    optimizer_ = *Optimizer::Create(job_.optimizer());
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      weights_.push_back(std::make_unique<ChunkWeights>(
          &job_.exchange(), layout_.ChunkSize(chunk), &buffers_, &halves_));
      Buffer initial = buffers_.Take();
      const std::vector<float> values = Numbers(/*step=*/-1, chunk, 0);
      std::copy(values.begin(), values.end(), initial.get());
      weights_.back()->Initialize(/*version=*/0, std::move(initial));
    }
  }

  Trace Drive(const ChunkPassMaker& make) {
    Make(make);
    for (int64_t step = 0; step < kSteps; ++step) {
      if (step == case_.resumed) Resume(make);
      // Sums of all chunks come before the first update, as with a norm.
      std::vector<TreeSum> sums;
      std::vector<double> squares;
      for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
        sums.push_back(SumOf(step, chunk));
        if (!case_.awaits_norm) continue;
        squares.push_back(
            made_.passes[chunk]->SumOfSquares(sums.back()).value());
      }
      for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
        const double found = Run(step, chunk, sums[chunk]);
        trace_.squares.push_back(found);
        if (case_.awaits_norm) {
          EXPECT_EQ(found, squares[chunk]);
        }
      }
    }
    return std::move(trace_);
  }

 private:
  void Make(const ChunkPassMaker& make) {
    ChunkPassPlan plan;
    plan.job = &job_;
    plan.layout = &layout_;
    plan.chunks = layout_.ChunksOf(/*shard=*/0, /*servers=*/1);
    plan.optimizer = optimizer_.get();
    absl::StatusOr<ChunkPasses> made = make(plan);
    ASSERT_TRUE(made.ok()) << made.status();
    made_ = *std::move(made);
  }

  void Resume(const ChunkPassMaker& make) {
    std::vector<std::vector<Buffer>> state;
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      state.push_back(Buffers());
      EXPECT_TRUE(made_.passes[chunk]->CopyState(state.back()).ok());
    }
    made_ = ChunkPasses();
    Make(make);
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      EXPECT_TRUE(made_.passes[chunk]->Restore(std::move(state[chunk])).ok());
    }
  }

  std::vector<Buffer> Buffers() {
    std::vector<Buffer> buffers;
    for (int slot = 0; slot < optimizer_->slots(); ++slot) {
      buffers.push_back(buffers_.Take());
    }
    return buffers;
  }

  // Zero in gaps.
  std::vector<float> Numbers(int64_t step, int chunk, int leaf) const {
    RandomStream numbers;
    numbers.a = static_cast<uint32_t>(step + 1);
    numbers.b = static_cast<uint32_t>(chunk * kLeaves + leaf);
    std::vector<float> values(layout_.ChunkSize(chunk), 0.0f);
    for (const ChunkSegment& segment : layout_.ChunkSegments(chunk)) {
      for (int64_t i = segment.begin; i < segment.end; ++i) {
        values[i] = Number(numbers, i);
      }
    }
    return values;
  }

  std::shared_ptr<const GradientSource> Source(int64_t step, int chunk,
                                               int leaf) const {
    std::vector<float> values = Numbers(step, chunk, leaf);
    if (case_.way == Way::kSparse) {
      for (size_t i = 0; i < values.size(); ++i) {
        if (i % 5 != static_cast<size_t>(leaf)) values[i] = 0;
      }
      return std::make_shared<InPieces>(std::move(values), /*sparse=*/true);
    }
    if (case_.way == Way::kMemory || (case_.way == Way::kBoth && leaf == 1)) {
      return std::make_shared<InMemory>(case_.dtype, std::move(values));
    }
    RoundTo(case_.dtype, values.data(), static_cast<int64_t>(values.size()));
    return std::make_shared<InPieces>(std::move(values), /*sparse=*/false);
  }

  TreeSum SumOf(int64_t step, int chunk) const {
    ChunkAggregator aggregator(kLeaves, case_.dtype);
    const auto add = [&](int node, int leaf) {
      NodeSum sum;
      sum.node = node;
      sum.gradient = Source(step, chunk, leaf);
      sum.sample_count = 1;
      aggregator.Add(std::move(sum));
    };
    if (case_.subtree) {
      add(/*node=*/2, /*leaf=*/0);
    } else {
      add(kLeaves, 0);
      add(kLeaves + 1, 1);
    }
    add(kLeaves + 2, 2);
    add(kLeaves + 3, 3);
    return aggregator.Take();
  }

  double Run(int64_t step, int chunk, const TreeSum& sum) {
    ChunkWeights& weights = *weights_[chunk];
    ChunkWeights::Next next = weights.Begin(/*for_streams=*/true);
    Snapshot::Chunk copy;
    copy.values = next.values;
    copy.slots = Buffers();
    ChunkPass::Arguments pass;
    pass.sum = &sum;
    pass.step.gradient_scale = case_.gradient_scale;
    pass.step.statistics_scale = 0.025f;
    pass.step.learning_rate = 0.01;
    pass.step.number = step;
    pass.weights = &weights;
    pass.next = &next;
    pass.skip = step == case_.skipped;
    pass.copy = &copy;
    const double squares = made_.passes[chunk]->Run(pass).value();
    weights.Complete(&next);
    weights.Finish(std::move(next));
    const int64_t elements = layout_.ChunkSize(chunk);
    const auto floats = [elements](const void* values) {
      const float* const from = static_cast<const float*>(values);
      return std::vector<float>(from, from + elements);
    };
    trace_.weights.push_back(floats(weights.Exact(weights.version()).data));
    for (const Buffer& slot : copy.slots) {
      trace_.state.push_back(floats(slot.get()));
    }
    const EncodedFloats sent = weights.Encoded(weights.version());
    trace_.payloads.emplace_back(static_cast<const char*>(sent.data),
                                 sent.bytes);
    return squares;
  }

  const Case case_;
  const ArenaLayout layout_;
  JobSpec job_;
  std::unique_ptr<Optimizer> optimizer_;
  BufferPool buffers_{4112};
  BufferPool halves_{2056};
  std::vector<std::unique_ptr<ChunkWeights>> weights_;
  ChunkPasses made_;
  Trace trace_;
};

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

void ExpectSameBits(const Case& c, const ChunkPassMaker& make) {
  const Trace expected = Driver(c).Drive(&MakeBlockPasses);
  const Trace trace = Driver(c).Drive(make);
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
      "{adamw {learning_rate: 0.1 weight_decay: 0.01}}"};
  return *optimizers;
}

}  // namespace

void ChunkPassConformanceTest::SetUp() {
  JobSpec job;
  job.mutable_batch()->set_micro_batches(1);
  const ArenaLayout layout = Layout();
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
    ExpectSameBits({optimizer}, GetParam().make);
  }
}

TEST_P(ChunkPassConformanceTest, SumsHaveThemHoweverGradientsCome) {
  for (const WireDtype dtype :
       {ExchangeSpec::FLOAT32, ExchangeSpec::BFLOAT16, ExchangeSpec::FLOAT16}) {
    for (const Way way : {Way::kMemory, Way::kPieces, Way::kBoth}) {
      for (const bool subtree : {false, true}) {
        SCOPED_TRACE(absl::StrCat(ExchangeSpec::WireDtype_Name(dtype), " ",
                                  static_cast<int>(way), " ", subtree));
        Case c = {Optimizers()[1], dtype, way};
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
    Case c = {Optimizers()[4], dtype};
    c.awaits_norm = true;
    ExpectSameBits(c, GetParam().make);
  }
}

TEST_P(ChunkPassConformanceTest, ASkippedStepChangesNothing) {
  Case c = {Optimizers()[3]};
  c.awaits_norm = true;
  for (const int64_t skipped : {0, 1}) {
    c.skipped = skipped;
    ExpectSameBits(c, GetParam().make);
  }
}

TEST_P(ChunkPassConformanceTest, PassesGoOnFromTheStateOfOthers) {
  for (const bool awaits_norm : {false, true}) {
    for (const std::string& optimizer : Optimizers()) {
      Case c = {optimizer};
      c.awaits_norm = awaits_norm;
      const Trace expected = Driver(c).Drive(&MakeBlockPasses);
      c.resumed = 2;
      const Trace trace = Driver(c).Drive(GetParam().make);
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
      Case c = {optimizer};
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
      const ArenaLayout layout = Layout();
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
      sum.gradient = std::make_shared<InMemory>(ExchangeSpec::FLOAT32, values);
      aggregator.Add(std::move(sum));
      EXPECT_FALSE(
          std::isfinite(*made->passes[0]->SumOfSquares(aggregator.Take())));
    }
  }
}

// By a way that has nothing in common with the code: float64.
TEST_P(ChunkPassConformanceTest, AdamWIsNearItsFormula) {
  const ArenaLayout layout = Layout();
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
  node.gradient = std::make_shared<InMemory>(ExchangeSpec::FLOAT32, gradient);
  aggregator.Add(std::move(node));
  const TreeSum sum = aggregator.Take();
  ChunkWeights::Next next = weights.Begin(/*for_streams=*/false);
  ChunkPass::Arguments pass;
  pass.sum = &sum;
  pass.step.gradient_scale = 0.5;
  pass.step.learning_rate = 0.01;
  pass.weights = &weights;
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
