#include "common/trace/trace_recorder.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

absl::Time At(int64_t ns) { return absl::FromUnixNanos(ns); }

TEST(TracedStepsTest, ARoundIsTracedIfItContainsATracedStep) {
  JobSpec job;
  EXPECT_FALSE(TracedStepsOf(job, 1).has_value());
  job.mutable_output()->mutable_trace()->set_begin_step(5);
  job.mutable_output()->mutable_trace()->set_end_step(9);
  const TracedSteps each = *TracedStepsOf(job, 1);
  EXPECT_EQ(each.begin, 5);
  EXPECT_EQ(each.end, 9);
  // Rounds of 4 steps: 4 to 7 and 8 to 11.
  const TracedSteps rounds = *TracedStepsOf(job, 4);
  EXPECT_EQ(rounds.begin, 1);
  EXPECT_EQ(rounds.end, 3);
}

TEST(TraceRecorderTest, MovesRecordsIntoMessagesOfBoundedSize) {
  TraceRecorder recorder({0, 10});
  const int name = recorder.DefineName("forward");
  EXPECT_EQ(recorder.DefineName("forward"), name);
  const int track = recorder.DefineTrack("compute 0");
  for (int i = 0; i < 3; ++i) {
    recorder.Span(name, track, At(i * 100), At(i * 100 + 50), {i, 7, 1});
  }
  recorder.FlowBegin(99, track, At(210), {2, 7});
  const ClockOffset offset = ClockOffset::OfCoordinator();
  std::optional<TraceRecords> first =
      recorder.Take(offset, /*most=*/2, /*last=*/true);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->record_size(), 2);
  EXPECT_FALSE(first->last());
  EXPECT_THAT(first->name(), ElementsAre("forward"));
  EXPECT_THAT(first->track(), ElementsAre("compute 0"));
  EXPECT_EQ(first->record(1).begin_ns(), 100);
  EXPECT_EQ(first->record(1).duration_ns(), 50);
  EXPECT_EQ(first->record(1).step(), 1);
  EXPECT_EQ(first->record(1).chunk(), 7);
  EXPECT_EQ(first->record(1).micro_batch(), 1);
  std::optional<TraceRecords> second =
      recorder.Take(offset, /*most=*/3, /*last=*/true);
  ASSERT_TRUE(second.has_value());
  EXPECT_TRUE(second->last());
  ASSERT_EQ(second->record_size(), 2);
  EXPECT_EQ(second->record(1).kind(), TraceRecords::Record::FLOW_BEGIN);
  EXPECT_EQ(second->record(1).flow(), 99);
  EXPECT_FALSE(recorder.Take(offset, 3, /*last=*/false).has_value());
}

TEST(TraceRecorderTest, CountsWhatItHasNoRoomFor) {
  TraceRecorder recorder({0, 10}, /*capacity=*/4);
  for (int i = 0; i < 7; ++i) recorder.Span(0, 0, At(i), At(i + 1), {0});
  const auto taken = recorder.Take(ClockOffset::OfCoordinator(), 100, true);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->record_size(), 4);
  EXPECT_EQ(taken->dropped(), 3);
}

TEST(TraceRecorderTest, ThreadsRecordAtTheSameTime) {
  constexpr int kThreads = 4;
  constexpr int kSpans = 1000;
  TraceRecorder recorder({0, 10}, kThreads * kSpans);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&recorder, thread] {
      for (int i = 0; i < kSpans; ++i) {
        recorder.Span(0, thread, At(i), At(i + 1), {i, thread});
      }
    });
  }
  std::vector<int> next(kThreads, 0);
  int taken = 0;
  while (taken < kThreads * kSpans) {
    const auto some = recorder.Take(ClockOffset::OfCoordinator(), 64, false);
    if (!some.has_value()) continue;
    for (const TraceRecords::Record& record : some->record()) {
      ASSERT_EQ(record.track(), record.chunk());
      ASSERT_EQ(record.step(), next[record.track()]++);
      ++taken;
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(recorder.Take(ClockOffset::OfCoordinator(), 1, true)->dropped(), 0);
}

TEST(TraceRecorderTest, FlowsDiffer) {
  EXPECT_EQ(ContributionFlow(1, 2, 3), ContributionFlow(1, 2, 3));
  EXPECT_NE(ContributionFlow(1, 2, 3), ContributionFlow(1, 3, 2));
  EXPECT_NE(ContributionFlow(1, 2, 3), ContributionFlow(2, 2, 3));
  EXPECT_NE(ContributionFlow(1, 2, 3), WeightsFlow(1, 2, 3));
}

}  // namespace
}  // namespace tributary
