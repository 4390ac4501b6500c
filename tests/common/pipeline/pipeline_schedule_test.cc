#include "common/pipeline/pipeline_schedule.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr PipelineSchedule kOneForwardOneBackward =
    PipelineSchedule::kOneForwardOneBackward;
constexpr PipelineSchedule kZeroBubble = PipelineSchedule::kZeroBubble;
constexpr PassSeconds kEqualPasses = {1, 1, 1};
constexpr int kMaxStages = 8;
constexpr int kMaxMicroBatches = 32;

std::string OrderText(PipelineSchedule schedule, const StageContext& context) {
  return absl::StrJoin(
      StageOrder(schedule, context), " ",
      [](std::string* out, const PipelineOperation& operation) {
        constexpr const char* kNames[] = {"F", "BW", "B", "W"};
        absl::StrAppend(out, kNames[static_cast<int>(operation.pass)],
                        operation.micro_batch);
      });
}

// Calls `check(traits, context)` for the stages of many pipelines.
template <typename Check>
void ForEachStage(Check check) {
  for (const ScheduleTraits& traits : AllSchedules())
    for (int stages = 1; stages <= kMaxStages; ++stages)
      for (int stage = 0; stage < stages; ++stage)
        for (int m = 1; m <= kMaxMicroBatches; ++m) {
          SCOPED_TRACE(absl::StrCat(traits.name, ", stage ", stage, " of ",
                                    stages, ", ", m, " micro-batches"));
          check(traits, StageContext{stages, stage, m});
          if (testing::Test::HasFailure()) return;
        }
}

// Runs the orders of all stages with queues of `capacity` messages, and checks
// that each operation comes after those whose results it needs.
class BoundedRun {
 public:
  // If `chained`, a weight pass waits for that of the next stage.
  BoundedRun(PipelineSchedule schedule, int stages, int micro_batches,
             int capacity, bool chained)
      : capacity_(capacity),
        chained_(chained),
        activations_(stages),
        gradients_(stages),
        done_(stages) {
    for (int stage = 0; stage < stages; ++stage) {
      const auto order = StageOrder(schedule, {stages, stage, micro_batches});
      orders_.emplace_back(order.begin(), order.end());
    }
  }

  // Returns true if all operations have run.
  bool Run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t stage = 0; stage < orders_.size(); ++stage)
        while (!orders_[stage].empty() &&
               TryRun(stage, orders_[stage].front())) {
          orders_[stage].pop_front();
          progress = true;
        }
    }
    return std::all_of(orders_.begin(), orders_.end(),
                       [](const auto& order) { return order.empty(); });
  }

 private:
  using Queue = std::deque<int>;  // Of micro-batches.

  // Numbers of micro-batches that have passed.
  struct Done {
    int forward = 0;
    int backward = 0;
    int weights = 0;
  };

  bool TryRun(int stage, const PipelineOperation& operation) {
    const int m = operation.micro_batch;
    Done& done = done_[stage];
    const bool is_last = stage + 1 == static_cast<int>(done_.size());
    const bool weights_may_run =
        !chained_ || is_last || done_[stage + 1].weights > m;
    switch (operation.pass) {
      case PipelinePass::kForward:
        if (!PassOn(m, &activations_, stage - 1, stage)) return false;
        EXPECT_EQ(done.forward++, m);
        return true;
      case PipelinePass::kBackward:
        if (!weights_may_run) return false;
        ABSL_FALLTHROUGH_INTENDED;
      case PipelinePass::kBackwardInput:
        EXPECT_GT(done.forward, m);
        if (!PassOn(m, &gradients_, stage, stage - 1)) return false;
        EXPECT_EQ(done.backward++, m);
        if (operation.pass == PipelinePass::kBackward) ++done.weights;
        return true;
      case PipelinePass::kBackwardWeights:
        EXPECT_GT(done.backward, m);
        if (!weights_may_run) return false;
        EXPECT_EQ(done.weights++, m);
        return true;
    }
    return false;
  }

  // Takes `m` from the queue of the boundary `from`, and puts it into that of
  // `to`. Does nothing, and returns false, if one of them must wait.
  bool PassOn(int m, std::vector<Queue>* queues, int from, int to) const {
    Queue* const input = QueueAt(from, queues);
    Queue* const output = QueueAt(to, queues);
    if (input != nullptr && input->empty()) return false;
    if (output != nullptr && static_cast<int>(output->size()) >= capacity_)
      return false;
    if (input != nullptr) {
      EXPECT_EQ(input->front(), m);
      input->pop_front();
    }
    if (output != nullptr) output->push_back(m);
    return true;
  }

  // Returns nullptr if there is no such boundary.
  static Queue* QueueAt(int boundary, std::vector<Queue>* queues) {
    const int boundaries = static_cast<int>(queues->size()) - 1;
    return boundary >= 0 && boundary < boundaries ? &(*queues)[boundary]
                                                  : nullptr;
  }

  const int capacity_;
  const bool chained_;
  std::vector<std::deque<PipelineOperation>> orders_;  // What has not run.
  std::vector<Queue> activations_;                     // Indexed by boundary.
  std::vector<Queue> gradients_;
  std::vector<Done> done_;  // Indexed by stage.
};

TEST(PipelineScheduleTest, TraitsAreThoseOfTheSchedule) {
  ASSERT_EQ(AllSchedules().size(), 3);
  for (const ScheduleTraits& traits : AllSchedules())
    EXPECT_EQ(TraitsOf(traits.schedule).name, traits.name);
}

TEST(PipelineScheduleTest, GPipeRunsAllForwardPassesFirst) {
  EXPECT_EQ(OrderText(PipelineSchedule::kGPipe, {4, 1, 3}),
            "F0 F1 F2 BW0 BW1 BW2");
}

TEST(PipelineScheduleTest, OneForwardOneBackwardAlternates) {
  EXPECT_EQ(OrderText(kOneForwardOneBackward, {3, 0, 5}),
            "F0 F1 F2 BW0 F3 BW1 F4 BW2 BW3 BW4");
  EXPECT_EQ(OrderText(kOneForwardOneBackward, {3, 2, 3}),
            "F0 BW0 F1 BW1 F2 BW2");
}

TEST(PipelineScheduleTest, ZeroBubbleDelaysWeightPassesMoreInLaterStages) {
  EXPECT_EQ(OrderText(kZeroBubble, {3, 0, 4}),
            "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(OrderText(kZeroBubble, {3, 2, 4}),
            "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
}

TEST(PipelineScheduleTest, EveryOperationIsInTheOrderOnce) {
  ForEachStage([](const ScheduleTraits& traits, const StageContext& context) {
    std::vector<int> seen[4];
    for (const PipelineOperation& operation :
         StageOrder(traits.schedule, context))
      seen[static_cast<int>(operation.pass)].push_back(operation.micro_batch);
    std::vector<int> all(context.micro_batches);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<int> none;
    const std::vector<int>& split = traits.splits_backward ? all : none;
    const std::vector<int>& whole = traits.splits_backward ? none : all;
    EXPECT_EQ(seen[static_cast<int>(PipelinePass::kForward)], all);
    EXPECT_EQ(seen[static_cast<int>(PipelinePass::kBackward)], whole);
    EXPECT_EQ(seen[static_cast<int>(PipelinePass::kBackwardInput)], split);
    EXPECT_EQ(seen[static_cast<int>(PipelinePass::kBackwardWeights)], split);
  });
}

TEST(PipelineScheduleTest, StagesHoldAsManyMicroBatchesAsDocumented) {
  ForEachStage([](const ScheduleTraits& traits, const StageContext& context) {
    int in_flight = 0, most_in_flight = 0;
    int delayed = 0, most_delayed = 0;
    int most_held = 0;
    for (const PipelineOperation& operation :
         StageOrder(traits.schedule, context)) {
      const bool weights = operation.pass == PipelinePass::kBackwardWeights;
      if (!weights) most_delayed = std::max(most_delayed, delayed);
      if (operation.pass == PipelinePass::kForward) {
        ++in_flight;
      } else if (!weights) {
        --in_flight;
      }
      if (operation.pass == PipelinePass::kBackwardInput) ++delayed;
      if (weights) --delayed;
      most_in_flight = std::max(most_in_flight, in_flight);
      most_held = std::max(most_held, in_flight + delayed);
    }
    const bool is_gpipe = traits.schedule == PipelineSchedule::kGPipe;
    const int m = context.micro_batches;
    EXPECT_EQ(most_in_flight,
              is_gpipe ? m : std::min(m, context.stages - context.stage));
    EXPECT_LE(most_delayed, traits.splits_backward ? context.stage : 0);
    // Delayed weight passes take no more memory than 1F1B's first stage.
    EXPECT_LE(most_held, is_gpipe ? m : std::min(m, context.stages));
    const StageLimits limits = traits.limits(context);
    EXPECT_EQ(limits.in_flight, most_in_flight);
    EXPECT_GE(limits.delayed, most_delayed);
    EXPECT_LE(limits.in_flight + limits.delayed, most_held);
  });
}

TEST(PipelineScheduleTest, IsThatWhichTheJobNames) {
  PipelineSpec spec;
  EXPECT_EQ(ScheduleOf(spec), kZeroBubble);
  spec.set_schedule(PipelineSpec::GPIPE);
  EXPECT_EQ(ScheduleOf(spec), PipelineSchedule::kGPipe);
  spec.set_schedule(PipelineSpec::ONE_F_ONE_B);
  EXPECT_EQ(ScheduleOf(spec), kOneForwardOneBackward);
}

TEST(PipelineScheduleTest, StepsCompleteWithBoundedQueues) {
  for (const ScheduleTraits& traits : AllSchedules())
    for (int stages = 1; stages <= kMaxStages; ++stages)
      for (int m = 1; m <= kMaxMicroBatches; ++m)
        for (const int capacity : {1, kStageQueueCapacity})
          for (const bool chained : {false, true})
            ASSERT_TRUE(
                BoundedRun(traits.schedule, stages, m, capacity, chained).Run())
                << traits.name << ", " << stages << " stages, " << m
                << " micro-batches, queues of " << capacity << ", chained "
                << chained;
}

TEST(PipelineScheduleTest, BubblesOfOneForwardOneBackwardAreAsPublished) {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::kGPipe, kOneForwardOneBackward}) {
    EXPECT_DOUBLE_EQ(BubbleFraction(schedule, 4, 8, kEqualPasses), 3.0 / 11);
    EXPECT_DOUBLE_EQ(BubbleFraction(schedule, 4, 8, {1, 2, 3}), 3.0 / 11);
  }
}

TEST(PipelineScheduleTest, TheBubbleOfZeroBubbleIsAsPublished) {
  // A third of the idle time of 1F1B.
  EXPECT_DOUBLE_EQ(BubbleFraction(kZeroBubble, 4, 8, kEqualPasses), 3.0 / 27);
  // (stages - 1) * (forward + backward_input - backward_weights)
  EXPECT_DOUBLE_EQ(BubbleFraction(kZeroBubble, 4, 8, {4, 5, 3}),
                   18.0 / (8 * 12 + 18));
}

TEST(PipelineScheduleTest, OneStageHasNoBubble) {
  for (const ScheduleTraits& traits : AllSchedules()) {
    EXPECT_EQ(BubbleFraction(traits.schedule, 1, 4, kEqualPasses), 0);
    EXPECT_EQ(BubbleFraction(traits.schedule, 1, 4, {}), 0);
  }
}

}  // namespace
}  // namespace tributary
