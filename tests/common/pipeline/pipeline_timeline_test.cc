#include "common/pipeline/pipeline_timeline.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

PipelineStep EqualStages(PipelineSchedule schedule, int stages,
                         int micro_batches,
                         const PassSeconds& seconds = {1, 1, 1}) {
  PipelineStep step;
  step.schedule = schedule;
  step.micro_batches = micro_batches;
  step.stages.assign(stages, seconds);
  return step;
}

double SpeedUp(PipelineSchedule schedule, int micro_batches) {
  constexpr int kStages = 2;
  return kStages * micro_batches * 3 /
         SimulatePipeline(EqualStages(schedule, kStages, micro_batches))
             .seconds;
}

std::vector<double> Begins(const StageTimeline& stage) {
  std::vector<double> begins;
  for (const TimedOperation& operation : stage.operations)
    begins.push_back(operation.begin);
  return begins;
}

TEST(PipelineTimelineTest, SpeedUpsOfTwoStagesAreAsPublished) {
  const auto one_f_one_b = PipelineSchedule::kOneForwardOneBackward;
  EXPECT_DOUBLE_EQ(SpeedUp(one_f_one_b, 4), 24.0 / 15);  // 1.60
  EXPECT_DOUBLE_EQ(SpeedUp(one_f_one_b, 8), 48.0 / 27);  // 1.78
  const auto zero_bubble = PipelineSchedule::kZeroBubble;
  EXPECT_DOUBLE_EQ(SpeedUp(zero_bubble, 4), 24.0 / 13);  // 1.846
  EXPECT_DOUBLE_EQ(SpeedUp(zero_bubble, 8), 48.0 / 25);  // 1.920
}

TEST(PipelineTimelineTest, EqualStagesAreIdleAsTheFormulaSays) {
  for (const ScheduleTraits& traits : AllSchedules())
    for (int stages = 1; stages <= 8; ++stages)
      for (int m = 1; m <= 32; ++m)
        for (const PassSeconds& seconds : std::vector<PassSeconds>{
                 {1, 1, 1}, {2, 3, 2}, {1, 2, 4}, {3, 1, 2}, {4, 4, 1}})
          for (const int capacity : {1, kStageQueueCapacity}) {
            const bool equal = seconds.total() == 3 * seconds.forward;
            if (m < stages && !equal) continue;
            SCOPED_TRACE(absl::StrCat(
                traits.name, ", ", stages, " stages, ", m,
                " micro-batches, passes of ", seconds.forward, " ",
                seconds.backward_input, " ", seconds.backward_weights));
            PipelineStep step =
                EqualStages(traits.schedule, stages, m, seconds);
            step.queue_capacity = capacity;
            const PipelineTimeline timeline = SimulatePipeline(step);
            for (const StageTimeline& stage : timeline.stages)
              ASSERT_DOUBLE_EQ(stage.idle_seconds,
                               traits.idle_seconds(stages, m, seconds));
            ASSERT_DOUBLE_EQ(
                timeline.bubble,
                BubbleFraction(traits.schedule, stages, m, seconds));
          }
}

TEST(PipelineTimelineTest, OperationsOfAStageDoNotOverlap) {
  PipelineStep step = EqualStages(PipelineSchedule::kZeroBubble, 3, 5);
  step.stages[1] = {2, 3, 4};
  step.boundaries = {{0.5, 0.25, 0.1}, {0.1, 0.2, 0.3}};
  const PipelineTimeline timeline = SimulatePipeline(step);
  for (const StageTimeline& stage : timeline.stages) {
    double free_at = 0;
    ASSERT_EQ(stage.operations.size(), 3 * 5);
    for (const TimedOperation& operation : stage.operations) {
      EXPECT_GE(operation.begin, free_at);
      free_at = operation.end;
    }
    EXPECT_LE(free_at, timeline.seconds);
  }
}

TEST(PipelineTimelineTest, TransfersAndLatencyDelayTheNextStage) {
  PipelineStep step = EqualStages(PipelineSchedule::kGPipe, 2, 1, {1, 2, 3});
  step.boundaries = {{/*forward=*/0.5, /*backward=*/0.25, /*latency=*/2}};
  const PipelineTimeline timeline = SimulatePipeline(step);
  EXPECT_EQ(Begins(timeline.stages[1]), (std::vector<double>{3.5, 4.5}));
  EXPECT_EQ(Begins(timeline.stages[0]), (std::vector<double>{0, 11.75}));
  EXPECT_EQ(timeline.seconds, 16.75);
  EXPECT_EQ(timeline.stages[0].idle_seconds, 10.75);
  EXPECT_DOUBLE_EQ(timeline.bubble, 10.75 / 16.75);
}

TEST(PipelineTimelineTest, MessagesFollowEachOtherOnTheLink) {
  PipelineStep step = EqualStages(PipelineSchedule::kGPipe, 2, 3, {1, 0, 0});
  step.boundaries = {{/*forward=*/4, /*backward=*/0, /*latency=*/0.5}};
  step.queue_capacity = 3;
  const PipelineTimeline timeline = SimulatePipeline(step);
  EXPECT_EQ(Begins(timeline.stages[1]),
            (std::vector<double>{5.5, 9.5, 13.5, 14.5, 14.5, 14.5}));
}

TEST(PipelineTimelineTest, ASlowStageDelaysTheStageBeforeIt) {
  PipelineStep step = EqualStages(PipelineSchedule::kGPipe, 2, 4, {1, 0, 0});
  step.stages[1].forward = 5;
  step.queue_capacity = 1;
  std::vector<double> begins = Begins(SimulatePipeline(step).stages[0]);
  begins.resize(4);
  EXPECT_EQ(begins, (std::vector<double>{0, 1, 6, 11}));
  step.queue_capacity = 2;
  begins = Begins(SimulatePipeline(step).stages[0]);
  begins.resize(4);
  EXPECT_EQ(begins, (std::vector<double>{0, 1, 2, 6}));
}

TEST(PipelineTimelineTest, ADeadlockTakesForever) {
  PipelineStep step = EqualStages(PipelineSchedule::kGPipe, 2, 1);
  step.queue_capacity = 0;
  EXPECT_EQ(SimulatePipeline(step).seconds,
            std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tributary
