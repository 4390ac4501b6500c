#include "tests/common/update/chunk_pass_driver.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/numerics/philox.h"
#include "common/parameters/trust_ratios.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/chunk_weights.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kDrivenLeaves = 4;
constexpr int64_t kSteps = 3;

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

class Driver {
 public:
  explicit Driver(const PassCase& c) : case_(c), layout_(DrivenLayout()) {
    EXPECT_TRUE(SetField(&job_, absl::StrCat("optimizer=", c.optimizer)).ok());
    job_.mutable_exchange()->set_wire_dtype(c.dtype);
    job_.mutable_batch()->set_micro_batches(kDrivenLeaves);
    optimizer_ = *Optimizer::Create(job_.optimizer());
    awaits_norm_ = c.awaits_norm || optimizer_->has_trust_ratios();
    job_.set_clip_norm(c.awaits_norm ? 1 : 0);
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
      std::vector<ChunkPassGroup::SumItem> items;
      for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
        sums.push_back(SumOf(step, chunk));
      }
      for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
        items.push_back({made_.passes[chunk].get(), &sums[chunk]});
      }
      std::vector<double> squares;
      if (awaits_norm_) squares = group()->SumOfSquares(items).value();
      if (optimizer_->has_trust_ratios()) SumTensors(step, sums);
      const std::vector<double> found = Run(step, sums);
      if (awaits_norm_) {
        EXPECT_EQ(found, squares);
      }
      trace_.squares.insert(trace_.squares.end(), found.begin(), found.end());
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
    numbers.b = static_cast<uint32_t>(chunk * kDrivenLeaves + leaf);
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
      const auto kept = std::make_shared<std::vector<float>>(std::move(values));
      return std::make_shared<GradientInMemory>(MemoryView{kept->data(), kept},
                                                case_.dtype);
    }
    RoundTo(case_.dtype, values.data(), static_cast<int64_t>(values.size()));
    return std::make_shared<InPieces>(std::move(values), /*sparse=*/false);
  }

  TreeSum SumOf(int64_t step, int chunk) const {
    ChunkAggregator aggregator(kDrivenLeaves, case_.dtype);
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
      add(kDrivenLeaves, 0);
      add(kDrivenLeaves + 1, 1);
    }
    add(kDrivenLeaves + 2, 2);
    add(kDrivenLeaves + 3, 3);
    return aggregator.Take();
  }

  ChunkPassGroup* group() {
    return case_.together ? made_.group.get() : &one_by_one_;
  }

  UpdateStep StepAt(int64_t step) const {
    UpdateStep at;
    at.gradient_scale = case_.gradient_scale;
    at.statistics_scale = 0.025f;
    at.learning_rate = 0.01;
    at.number = step;
    return at;
  }

  void SumTensors(int64_t step, const std::vector<TreeSum>& sums) {
    std::vector<ChunkPassGroup::TensorItem> items;
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      items.push_back(
          {made_.passes[chunk].get(),
           {&sums[chunk], StepAt(step), weights_[chunk]->Newest()}});
    }
    const auto squares = group()->SumTensorSquares(items).value();
    for (const std::vector<TensorSquares>& of_chunk : squares) {
      for (const TensorSquares& part : of_chunk) {
        trace_.squares.push_back(part.weights);
        trace_.squares.push_back(part.direction);
      }
    }
    trust_ratios_ = ratios_.Of(squares);
  }

  struct PassRun {
    ChunkWeights::Next next;
    Snapshot::Chunk copy;
    ChunkPass::Arguments arguments;
  };

  std::unique_ptr<PassRun> Begin(int64_t step, int chunk, const TreeSum& sum) {
    auto run = std::make_unique<PassRun>();
    run->next = weights_[chunk]->Begin(/*for_streams=*/true);
    run->copy.values = run->next.values;
    run->copy.slots = Buffers();
    ChunkPass::Arguments& pass = run->arguments;
    pass.sum = &sum;
    pass.step = StepAt(step);
    if (optimizer_->has_trust_ratios()) {
      pass.trust_ratios = ratios_.RatiosIn(chunk, trust_ratios_);
    }
    pass.next = &run->next;
    pass.skip = step == case_.skipped;
    pass.copy = &run->copy;
    return run;
  }

  std::vector<double> Run(int64_t step, const std::vector<TreeSum>& sums) {
    std::vector<std::unique_ptr<PassRun>> runs;
    std::vector<ChunkPassGroup::RunItem> items;
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      runs.push_back(Begin(step, chunk, sums[chunk]));
      items.push_back({made_.passes[chunk].get(), &runs.back()->arguments});
    }
    std::vector<double> squares = group()->Run(items).value();
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      End(chunk, runs[chunk].get());
    }
    return squares;
  }

  void End(int chunk, PassRun* run) {
    ChunkWeights& weights = *weights_[chunk];
    weights.Complete(&run->next);
    weights.Finish(std::move(run->next));
    const int64_t elements = layout_.ChunkSize(chunk);
    const auto floats = [elements](const void* values) {
      const float* const from = static_cast<const float*>(values);
      return std::vector<float>(from, from + elements);
    };
    trace_.weights.push_back(floats(weights.Exact(weights.version()).data));
    for (const Buffer& slot : run->copy.slots) {
      trace_.state.push_back(floats(slot.get()));
    }
    const EncodedFloats sent = weights.Encoded(weights.version());
    trace_.payloads.emplace_back(static_cast<const char*>(sent.data),
                                 sent.bytes);
  }

  const PassCase case_;
  const ArenaLayout layout_;
  const TrustRatios ratios_{layout_};
  JobSpec job_;
  bool awaits_norm_ = false;
  std::vector<float> trust_ratios_;  // Of the newest step.
  std::unique_ptr<Optimizer> optimizer_;
  BufferPool buffers_{4112};
  BufferPool halves_{2056};
  std::vector<std::unique_ptr<ChunkWeights>> weights_;
  ChunkPasses made_;
  ChunkPassGroup one_by_one_;
  Trace trace_;
};

}  // namespace

ArenaLayout DrivenLayout() {
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
  for (const auto& [parameter, factor] :
       std::vector<std::pair<int, float>>{{3, 0.3f}, {4, 1.7f}, {6, 2.5f}}) {
    table.mutable_parameter(parameter)->set_learning_rate_factor(factor);
  }
  return *ArenaLayout::Create(table);
}

Trace DrivePasses(const PassCase& c, const ChunkPassMaker& make) {
  return Driver(c).Drive(make);
}

}  // namespace tributary
