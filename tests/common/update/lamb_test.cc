// LAMB, whose steps depend on the norms of whole parameters, in chunks that cut
// the parameters.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/parameters/trust_ratios.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_weights.h"
#include "gtest/gtest.h"
#include "tests/common/update/lamb_golden.h"

namespace tributary {
namespace {

// Each step rounds a few numbers near 1, by up to 2^-24 each.
constexpr double kTolerance = 1e-6;

// The parameters of make_lamb_golden.py.
ArenaLayout LambLayout(int64_t chunk_elements) {
  ParameterTable table;
  table.set_chunk_elements(chunk_elements);
  for (const auto& [size, group] : std::vector<std::pair<int, OptimizerGroup>>{
           {40, DECAY}, {5, NO_DECAY}, {70, DECAY}, {16, DECAY}}) {
    auto* const parameter = table.add_parameter();
    parameter->set_name(absl::StrCat("p", table.parameter_size()));
    parameter->add_shape(size);
    parameter->set_group(group);
  }
  return *ArenaLayout::Create(table);
}

// Runs the passes of all chunks, one step after the other.
class Lamb {
 public:
  explicit Lamb(int64_t chunk_elements)
      : layout_(LambLayout(chunk_elements)), ratios_(layout_) {
    OptimizerSpec spec;
    spec.mutable_lamb()->set_learning_rate(0.01);
    spec.mutable_lamb()->set_beta2(0.99);
    spec.mutable_lamb()->set_weight_decay(0.1);
    optimizer_ = *Optimizer::Create(spec);
    std::vector<float> weights(layout_.arena_elements(), 0.0f);
    ForEachElement([&](int64_t i, int64_t at) {
      if (i + 16 < kLambCount) {
        weights[at] = static_cast<float>(((i * 37) % 17 - 8) / 10.0);
      }
    });
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      passes_.push_back(
          std::make_unique<BlockPass>(layout_, chunk, optimizer_.get()));
      weights_.push_back(std::make_unique<ChunkWeights>(
          &exchange_, layout_.ChunkSize(chunk), &buffers_, &halves_));
      Buffer first = buffers_.Take();
      std::copy_n(weights.data() + layout_.ChunkBegin(chunk),
                  layout_.ChunkSize(chunk), first.get());
      weights_.back()->Initialize(/*version=*/0, std::move(first));
    }
  }

  void Step() {
    std::vector<float> gradient(layout_.arena_elements(), 0.0f);
    // A sum over four samples.
    ForEachElement([&](int64_t i, int64_t at) {
      gradient[at] =
          4 * static_cast<float>(((i * 53 + step_ * 29) % 23 - 11) / 7.0);
    });
    UpdateStep step;
    step.gradient_scale = 0.25f;
    step.learning_rate = 0.01;
    step.number = step_++;
    std::vector<TreeSum> sums;
    std::vector<std::vector<TensorSquares>> squares;
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      sums.push_back(TreeSum::Of(std::make_shared<GradientInMemory>(
          MemoryView{gradient.data() + layout_.ChunkBegin(chunk)})));
      squares.push_back(*passes_[chunk]->SumTensorSquares(
          {&sums[chunk], step, weights_[chunk]->Newest()}));
    }
    trust_ratios_ = ratios_.Of(squares);
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      ChunkWeights::Next next = weights_[chunk]->Begin(/*for_streams=*/false);
      ChunkPass::Arguments pass;
      pass.sum = &sums[chunk];
      pass.step = step;
      pass.trust_ratios = ratios_.RatiosIn(chunk, trust_ratios_);
      pass.next = &next;
      ASSERT_TRUE(passes_[chunk]->Run(pass).ok());
      weights_[chunk]->Finish(std::move(next));
    }
  }

  // Returns the weights without the gaps.
  std::vector<float> weights() const {
    std::vector<float> weights;
    ForEachElement([&](int64_t, int64_t at) {
      const int64_t chunk = at / layout_.chunk_elements();
      weights.push_back(
          weights_[chunk]->Newest().get()[at - layout_.ChunkBegin(chunk)]);
    });
    return weights;
  }
  const std::vector<float>& trust_ratios() const { return trust_ratios_; }

 private:
  // Calls `visit` with the number of each element, counted without gaps, and
  // its offset in the arena.
  template <typename Visit>
  void ForEachElement(const Visit& visit) const {
    int64_t i = 0;
    for (const Parameter& parameter : layout_.parameters()) {
      for (int64_t n = 0; n < parameter.size; ++n) {
        visit(i++, parameter.offset + n);
      }
    }
  }

  const ArenaLayout layout_;
  const TrustRatios ratios_;
  const ExchangeSpec exchange_;
  BufferPool buffers_{1024};
  BufferPool halves_{512};
  std::unique_ptr<Optimizer> optimizer_;
  std::vector<std::unique_ptr<BlockPass>> passes_;
  std::vector<std::unique_ptr<ChunkWeights>> weights_;
  std::vector<float> trust_ratios_;
  int64_t step_ = 0;
};

// Chunks of one row, chunks that cut parameters, and one chunk for all.
TEST(LambTest, HasTheWeightsOfAnIndependentImplementation) {
  for (const int64_t chunk_elements : {16, 48, 1024}) {
    Lamb lamb(chunk_elements);
    int step = 0;
    for (int row = 0; row < kLambRows; ++row) {
      for (; step < kLambSteps[row]; ++step) lamb.Step();
      const std::vector<float> weights = lamb.weights();
      ASSERT_EQ(weights.size(), kLambCount);
      for (int i = 0; i < kLambCount; ++i) {
        EXPECT_NEAR(weights[i], kLamb[row][i], kTolerance)
            << "chunks of " << chunk_elements << ", step " << step
            << ", element " << i;
      }
    }
  }
}

TEST(LambTest, WeightsThatAreZeroMoveByThePlainLearningRate) {
  Lamb lamb(/*chunk_elements=*/48);
  lamb.Step();
  ASSERT_EQ(lamb.trust_ratios().size(), 3u);
  EXPECT_NE(lamb.trust_ratios()[0], 1);
  EXPECT_NE(lamb.trust_ratios()[1], 1);
  EXPECT_EQ(lamb.trust_ratios()[2], 1);
  lamb.Step();
  EXPECT_NE(lamb.trust_ratios()[2], 1);
}

TEST(LambTest, SumsOfSquaresLeaveTheStateAsItIs) {
  const ArenaLayout layout = LambLayout(/*chunk_elements=*/1024);
  OptimizerSpec spec;
  spec.mutable_lamb()->set_learning_rate(0.01);
  spec.set_average_decay(0.9);
  const std::unique_ptr<Optimizer> optimizer = *Optimizer::Create(spec);
  BlockPass pass(layout, /*chunk=*/0, optimizer.get());
  const Buffer weights = AllocateBuffer(layout.ChunkSize(0));
  std::fill_n(weights.get(), layout.ChunkSize(0), 1.0f);
  std::vector<float> gradient(layout.ChunkSize(0), 1.0f);
  const TreeSum sum = TreeSum::Of(
      std::make_shared<GradientInMemory>(MemoryView{gradient.data()}));
  const auto squares = *pass.SumTensorSquares({&sum, UpdateStep(), weights});
  // In the first step, each element of the direction is g / (|g| + epsilon).
  ASSERT_EQ(squares.size(), 3u);
  EXPECT_EQ(squares[0].weights, 40);
  EXPECT_EQ(squares[1].weights, 70);
  EXPECT_EQ(squares[2].weights, 16);
  EXPECT_NEAR(squares[1].direction, 70, 70 * 1e-5);
  std::vector<Buffer> state;
  for (int slot = 0; slot < optimizer->slots(); ++slot) {
    state.push_back(AllocateBuffer(layout.ChunkSize(0)));
    state.back().get()[0] = 1;
  }
  ASSERT_EQ(pass.CopyState(state), absl::OkStatus());
  for (const Buffer& slot : state) {
    for (int64_t i = 0; i < layout.ChunkSize(0); ++i) {
      ASSERT_EQ(slot.get()[i], 0) << i;
    }
  }
}

}  // namespace
}  // namespace tributary
