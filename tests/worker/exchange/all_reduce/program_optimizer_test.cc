#include "worker/exchange/all_reduce/program_optimizer.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/snapshot.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/exchange/conformance/exchange_worker.h"
#include "tests/worker/exchange/conformance/exchange_workload.h"
#include "tests/worker/exchange/mesh/local_meshes.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"

namespace tributary {
namespace {

constexpr int64_t kSteps = ExchangeWorkload::kSteps;
constexpr int kArrays = 2;

// Adds the gradient to the weights, as the optimizer of optimizer.program does
// in ExchangeReference. Its state is the number of steps, in all bytes.
class AddingRule final : public ProgramRule {
 public:
  absl::Status Load(absl::Span<const char> state) override {
    loaded.emplace_back(state.begin(), state.end());
    steps_ = state.front();
    return absl::OkStatus();
  }
  absl::Status Apply(const Update& update) override {
    ++applied;
    ++steps_;
    for (size_t p = 0; p < update.weights.size(); ++p) {
      if (update.gradients[p] == nullptr) continue;
      const int64_t size = workload.layout.parameters()[p].size;
      for (int64_t i = 0; i < size; ++i) {
        update.new_weights[p][i] =
            update.weights[p][i] + update.gradients[p][i];
        update.gradients[p][i] = 0;  // A rule may overwrite them.
      }
    }
    return error;
  }
  absl::Status Save(absl::Span<char> state) override {
    ++saved;
    EXPECT_EQ(std::count(state.begin(), state.end(), 0),
              static_cast<int64_t>(state.size()));
    std::fill(state.begin(), state.end(), steps_);
    return absl::OkStatus();
  }

  const ExchangeWorkload workload{"sgd"};
  std::vector<std::string> loaded;
  int applied = 0;
  int saved = 0;
  absl::Status error;

 private:
  char steps_ = 0;
};

JobSpec ProgramJob(const ExchangeWorkload& workload) {
  JobSpec job = workload.job;
  job.clear_schedule();
  job.mutable_exchange()->mutable_all_reduce();
  job.mutable_optimizer()->mutable_program()->set_state_arrays(kArrays);
  return job;
}

// A ProgramOptimizer, with a gradient of ones in each step.
class ProgramOptimizerTest : public testing::Test {
 protected:
  ProgramOptimizerTest() {
    for (const Parameter& parameter : layout_.parameters()) {
      elements_ += parameter.size;
    }
    ones_ = AllocateBuffer(layout_.arena_elements());
    std::fill_n(ones_.get(), layout_.arena_elements(), 1.f);
    weights_.resize(layout_.arena_elements());
    new_weights_.resize(layout_.arena_elements());
  }

  std::unique_ptr<ProgramOptimizer> Make(const JobSpec& job,
                                         ProgramRule* rule) {
    return std::make_unique<ProgramOptimizer>(
        job, kSteps, &layout_, *Optimizer::Create(job.optimizer()), rule);
  }
  absl::Status Update(ProgramOptimizer* optimizer, double norm = 1) {
    std::vector<TreeSum> gradients;
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      gradients.push_back(TreeSum::Of(
          std::make_shared<GradientInMemory>(MemoryView{ones_.get(), ones_})));
    }
    std::vector<MemberOptimizer::WeightsUpdate> updates;
    for (int chunk = 0; chunk < layout_.chunk_count(); ++chunk) {
      const int64_t begin = layout_.ChunkBegin(chunk);
      updates.push_back(
          {chunk, &gradients[chunk], &weights_[begin], &new_weights_[begin]});
    }
    return optimizer->Update({/*number=*/0, /*sample_count=*/4, norm}, updates);
  }
  // Returns the state as checkpoints keep it: without gaps.
  Snapshot StateOf(ProgramOptimizer* optimizer) {
    const Snapshot copy = MakeSnapshot(layout_, Chunks(), kArrays);
    Snapshot kept = MakeSnapshot(layout_, Chunks(), kArrays);
    for (size_t i = 0; i < copy.chunks.size(); ++i) {
      EXPECT_TRUE(
          optimizer
              ->CopyState(
                  &new_weights_[layout_.ChunkBegin(copy.chunks[i].number)],
                  copy.chunks[i])
              .ok());
      for (int slot = 0; slot < kArrays; ++slot) {
        float* const to = kept.chunks[i].slots[slot].get();
        std::fill_n(to, copy.chunks[i].elements, 0.f);
        for (const ChunkSegment& segment :
             layout_.ChunkSegments(copy.chunks[i].number)) {
          std::copy(copy.chunks[i].slots[slot].get() + segment.begin,
                    copy.chunks[i].slots[slot].get() + segment.end,
                    to + segment.begin);
        }
      }
    }
    return kept;
  }
  std::vector<int> Chunks() const {
    return layout_.ChunksOf(/*shard=*/0, /*servers=*/1);
  }
  size_t StateBytes() const { return kArrays * elements_ * sizeof(float); }

  AddingRule rule_;
  const ArenaLayout layout_ = rule_.workload.layout;
  JobSpec job_ = ProgramJob(rule_.workload);
  int64_t elements_ = 0;
  Buffer ones_;
  std::vector<float> weights_, new_weights_;
};

TEST_F(ProgramOptimizerTest, AppliesTheRuleOnceAndUpdatesStatistics) {
  const auto optimizer = Make(job_, &rule_);
  EXPECT_EQ(optimizer->chunks_per_update(), layout_.chunk_count());
  EXPECT_EQ(optimizer->slots(), kArrays);
  ASSERT_TRUE(Update(optimizer.get()).ok());
  EXPECT_EQ(rule_.applied, 1);
  EXPECT_EQ(rule_.saved, 0);
  for (const Parameter& parameter : layout_.parameters()) {
    const float expected = parameter.group == STATISTICS ? -0.1f / 4 : 0.25f;
    EXPECT_EQ(new_weights_[parameter.offset], expected);
    EXPECT_EQ(new_weights_[parameter.offset + parameter.size - 1], expected);
  }
}

TEST_F(ProgramOptimizerTest, BeginsWithAStateOfZeros) {
  ASSERT_TRUE(Update(Make(job_, &rule_).get()).ok());
  EXPECT_EQ(rule_.loaded,
            std::vector<std::string>{std::string(StateBytes(), '\0')});
}

TEST_F(ProgramOptimizerTest, RestoresTheStateThatItHasSaved) {
  const auto optimizer = Make(job_, &rule_);
  ASSERT_TRUE(Update(optimizer.get()).ok());
  ASSERT_TRUE(Update(optimizer.get()).ok());
  EXPECT_EQ(rule_.loaded.size(), 1u);
  const Snapshot state = StateOf(optimizer.get());
  EXPECT_EQ(rule_.saved, 1);  // Not once for each chunk.
  AddingRule second;
  const auto resumed = Make(job_, &second);
  for (const Snapshot::Chunk& chunk : state.chunks) resumed->Restore(chunk);
  ASSERT_TRUE(Update(resumed.get()).ok());
  EXPECT_EQ(second.loaded,
            std::vector<std::string>{std::string(StateBytes(), 2)});
}

TEST_F(ProgramOptimizerTest, DoesNotApplyTheRuleInASkippedStep) {
  job_.set_on_nonfinite(JobSpec::SKIP);
  const auto optimizer = Make(job_, &rule_);
  weights_[3] = 5;
  ASSERT_TRUE(
      Update(optimizer.get(), std::numeric_limits<double>::infinity()).ok());
  EXPECT_EQ(rule_.applied, 0);
  EXPECT_EQ(new_weights_, weights_);
  StateOf(optimizer.get());
  EXPECT_EQ(rule_.saved, 1);
}

TEST_F(ProgramOptimizerTest, ReturnsTheErrorOfTheRule) {
  rule_.error = absl::InvalidArgumentError("of the rule");
  EXPECT_THAT(Update(Make(job_, &rule_).get()),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

class ProgramExchangeTest : public testing::TestWithParam<int> {};

TEST_P(ProgramExchangeTest, HasTheBitsOfOneProcess) {
  ExchangeWorkload workload("sgd");
  workload.job = ProgramJob(workload);
  const ExchangeReference reference(workload);
  auto meshes = MakeLocalMeshes(GetParam());
  AllReduceExchange::Options options;
  options.job = workload.job;
  options.steps = kSteps;
  options.assignments = ExchangeWorkload::Assign(GetParam());
  std::vector<AddingRule> rules(GetParam());
  std::vector<std::unique_ptr<ExchangeWorker>> workers;
  for (int rank = 0; rank < GetParam(); ++rank) {
    options.rule = &rules[rank];
    workers.push_back(
        std::make_unique<ExchangeWorker>(&workload, options.assignments[rank]));
    auto exchange = AllReduceExchange::Create(options, &workload.layout,
                                              workers[rank]->sink(),
                                              std::move(meshes[rank]));
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    workers[rank]->SetExchange(*std::move(exchange));
    workers[rank]->PushInitial();
  }
  std::vector<std::thread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&reference, w = worker.get()] {
      w->Train(0, kSteps, reference);
      w->exchange()->Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const AddingRule& rule : rules) EXPECT_EQ(rule.applied, kSteps);
}

INSTANTIATE_TEST_SUITE_P(All, ProgramExchangeTest, testing::Values(1, 2, 3));

TEST(AllReduceExchangeRuleTest, NeedsARule) {
  ExchangeWorkload workload("sgd");
  CheckingSink sink(&workload.layout);
  AllReduceExchange::Options options;
  options.job = ProgramJob(workload);
  options.assignments = ExchangeWorkload::Assign(1);
  EXPECT_THAT(AllReduceExchange::Create(options, &workload.layout, &sink,
                                        std::move(MakeLocalMeshes(1)[0]))
                  .status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace tributary
