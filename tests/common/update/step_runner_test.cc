#include "common/update/step_runner.h"

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/update/chunk_fixture.h"
#include "tests/support/executors.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Computes nothing, and has the sum of squares `squares`.
class FakePass final : public ChunkPass {
 public:
  explicit FakePass(double squares) : squares_(squares) {}

  bool brief() const override { return false; }
  absl::StatusOr<double> SumOfSquares(const TreeSum&) override {
    return squares_;
  }
  absl::StatusOr<double> Run(const Arguments&) override { return squares_; }
  absl::Status Restore(std::vector<Buffer>) override {
    return absl::OkStatus();
  }
  absl::Status CopyState(absl::Span<const Buffer>) override {
    return absl::OkStatus();
  }

 private:
  const double squares_;
};

// The numbers of the chunks that ran together, in the order of the calls.
struct Calls {
  std::vector<std::vector<int>> sums;
  std::vector<std::vector<int>> updates;
};

class RecordingPassGroup final : public ChunkPassGroup {
 public:
  RecordingPassGroup(int most, int streams, const ChunkGroup* group,
                     Calls* calls)
      : most_(most), streams_(streams), group_(*group), calls_(*calls) {}

  int most() const override { return most_; }
  int streams() const override { return streams_; }
  absl::StatusOr<std::vector<double>> SumOfSquares(
      absl::Span<const SumItem> items) override {
    calls_.sums.push_back(NumbersOf(items));
    return ChunkPassGroup::SumOfSquares(items);
  }
  absl::StatusOr<std::vector<double>> Run(
      absl::Span<const RunItem> items) override {
    calls_.updates.push_back(NumbersOf(items));
    return ChunkPassGroup::Run(items);
  }

 private:
  template <typename Items>
  std::vector<int> NumbersOf(const Items& items) const {
    std::vector<int> numbers;
    for (const auto& item : items) {
      for (const auto& chunk : group_.chunks()) {
        if (chunk->pass() == item.pass) numbers.push_back(chunk->number());
      }
    }
    return numbers;
  }

  const int most_;
  const int streams_;
  const ChunkGroup& group_;
  Calls& calls_;
};

class StepRunnerTest : public ChunkFixture {
 protected:
  // Creates a runner of chunks with these sums of squares. The chunks have
  // version 0.
  std::unique_ptr<StepRunner> Make(const std::vector<double>& squares, int most,
                                   int streams, bool awaits_norm = false) {
    settings_.awaits_norm = awaits_norm;
    for (const double each : squares) {
      const int number = static_cast<int>(group_.chunks().size());
      group_.Add(std::make_unique<ChunkUpdater>(
          &settings_, number, /*place=*/number, kSize, policy_.NewQueue(),
          std::make_unique<FakePass>(each)));
    }
    StepRunner::Options options;
    options.group = &group_;
    options.policy = &policy_;
    options.passes =
        std::make_unique<RecordingPassGroup>(most, streams, &group_, &calls_);
    options.awaits_norm = awaits_norm;
    options.on_sums = [this](const StepSums& sums) { sums_.push_back(sums); };
    options.on_idle = [this] { ++idle_; };
    options.on_failure = settings_.on_failure;
    return std::make_unique<StepRunner>(&pool_, std::move(options));
  }

  // Completes the step after `version`, the newest version of the chunk.
  void Begin(StepRunner* runner, int number, int64_t version = 0) {
    ChunkUpdater* const chunk = group_.Find(number);
    chunk->Initialize(version, Filled(4), /*slots=*/{});
    ContributeStep(chunk, version);
    runner->Begin(chunk);
  }

  const OrderedPolicy policy_ = Policy();
  ChunkGroup group_{/*steps=*/10};
  HeldExecutor pool_;
  Calls calls_;
  std::vector<StepSums> sums_;
  int idle_ = 0;
};

TEST_F(StepRunnerTest, RunsChunksOneByOneTheFirstFirst) {
  const auto runner =
      Make(std::vector<double>(6, 1), /*most=*/1, /*streams=*/1);
  for (const int number : {5, 3, 4}) Begin(runner.get(), number);
  EXPECT_EQ(runner->queued(), 3);
  EXPECT_THAT(calls_.updates, IsEmpty());
  pool_.RunAll();
  EXPECT_THAT(calls_.updates,
              ElementsAre(ElementsAre(3), ElementsAre(4), ElementsAre(5)));
  EXPECT_EQ(runner->queued(), 0);
  EXPECT_EQ(idle_, 1);
}

TEST_F(StepRunnerTest, ChunksThatAreReadyTogetherRunTogether) {
  const auto runner =
      Make(std::vector<double>(6, 1), /*most=*/4, /*streams=*/1);
  for (int number = 0; number < 6; ++number) Begin(runner.get(), number);
  pool_.RunAll();
  EXPECT_THAT(calls_.updates,
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5)));
  EXPECT_EQ(idle_, 1);
  Begin(runner.get(), 2, /*version=*/1);
  pool_.RunAll();
  EXPECT_THAT(calls_.updates.back(), ElementsAre(2));
  EXPECT_EQ(idle_, 2);
}

TEST_F(StepRunnerTest, AllStreamsHaveWork) {
  const auto runner =
      Make(std::vector<double>(5, 1), /*most=*/4, /*streams=*/3);
  for (int number = 0; number < 5; ++number) Begin(runner.get(), number);
  pool_.RunAll();
  EXPECT_THAT(calls_.updates, ElementsAre(ElementsAre(0, 1), ElementsAre(2),
                                          ElementsAre(3), ElementsAre(4)));
}

TEST_F(StepRunnerTest, ChunksThatRunTogetherHaveOneNorm) {
  const auto runner = Make(std::vector<double>(6, 1), /*most=*/4, /*streams=*/1,
                           /*awaits_norm=*/true);
  for (const int number : {0, 1, 5}) Begin(runner.get(), number);
  for (const int number : {3, 4}) Begin(runner.get(), number, /*version=*/1);
  pool_.RunAll();
  calls_ = Calls();
  runner->SetGradientNorm(/*step=*/0, 1.5);
  runner->SetGradientNorm(/*step=*/1, kNan);
  Begin(runner.get(), 2);
  pool_.RunAll();
  EXPECT_THAT(calls_.sums, ElementsAre(ElementsAre(2)));
  EXPECT_THAT(calls_.updates, ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4),
                                          ElementsAre(5)));
  EXPECT_EQ(group_.Find(2)->state(), ChunkUpdater::State::kAwaitingNorm);
}

TEST_F(StepRunnerTest, ReportsAStepWithTheSumOfItsLastChunk) {
  const auto runner = Make({3, 5}, /*most=*/1, /*streams=*/1);
  Begin(runner.get(), 1);
  pool_.RunAll();
  EXPECT_THAT(sums_, IsEmpty());
  Begin(runner.get(), 0);
  pool_.RunAll();
  ASSERT_EQ(sums_.size(), 1);
  EXPECT_EQ(sums_[0].step(), 0);
  EXPECT_EQ(sums_[0].weight(), 2);
  EXPECT_EQ(sums_[0].loss_sum(), 6);
  EXPECT_THAT(sums_[0].sum_of_squares(), ElementsAre(3, 5));
  EXPECT_EQ(sums_[0].nonfinite_size(), 0);
}

TEST_F(StepRunnerTest, NamesTheChunkWhoseSumIsNotFinite) {
  const auto runner = Make({2, std::numeric_limits<double>::infinity()},
                           /*most=*/1, /*streams=*/1);
  for (const int number : {0, 1}) Begin(runner.get(), number);
  pool_.RunAll();
  ASSERT_EQ(sums_.size(), 1);
  ASSERT_EQ(sums_[0].nonfinite_size(), 1);
  EXPECT_EQ(sums_[0].nonfinite(0).chunk(), 1);
}

}  // namespace
}  // namespace tributary
