#include "server/progress/health_monitor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Adds a line for every tenth of `steps` steps, and returns the alarms.
std::vector<HealthMonitor::Alarm> Train(
    int64_t steps, const std::function<double(double)>& loss_at,
    HealthMonitor* monitor) {
  std::vector<HealthMonitor::Alarm> all;
  for (int64_t step = 10; step <= steps; step += 10) {
    HealthMonitor::Line line;
    line.step = step;
    line.loss = loss_at(static_cast<double>(step) / static_cast<double>(steps));
    for (HealthMonitor::Alarm& alarm : monitor->Add(line)) {
      all.push_back(std::move(alarm));
    }
  }
  return all;
}

std::vector<std::string> KindsOf(
    const std::vector<HealthMonitor::Alarm>& alarms) {
  std::vector<std::string> kinds;
  for (const HealthMonitor::Alarm& alarm : alarms) kinds.push_back(alarm.kind);
  return kinds;
}

// Curves of jobs with which nothing is wrong: long or short, with noise of any
// size, with a warm-up, and close to zero at the end.
TEST(HealthMonitorTest, IsQuietWhileTheLossImproves) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const int64_t steps : {100, 1000, 10000, 100000}) {
    for (const double noise : {0.0, 0.01, 0.1, 0.5}) {
      for (const double rate : {1.0, 3.0, 10.0}) {
        HealthMonitor monitor(steps);
        const auto alarms = Train(
            steps,
            [&](double t) {
              const double warm_up = t < 0.05 ? 2 * (0.05 - t) : 0;
              return 1 + 4 * std::exp(-rate * t) + warm_up +
                     noise * std::abs(normal(random));
            },
            &monitor);
        for (const HealthMonitor::Alarm& alarm : alarms) {
          // A rate of 10 is flat after a third of the job.
          EXPECT_TRUE(alarm.kind == "plateau" && rate == 10)
              << steps << " steps, noise " << noise << ", rate " << rate << ": "
              << alarm.message;
        }
      }
    }
  }
  HealthMonitor monitor(20000);
  EXPECT_THAT(Train(
                  20000, [](double t) { return std::exp(-20 * t); }, &monitor),
              IsEmpty());
}

TEST(HealthMonitorTest, NoticesALossThatRisesAgain) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  HealthMonitor monitor(10000);
  const auto alarms = Train(
      10000,
      [&](double t) {
        const double noise = 0.05 * normal(random);
        return (t < 0.4 ? 5 - 8 * t : 1.8 + 20 * (t - 0.4)) + noise;
      },
      &monitor);
  ASSERT_THAT(KindsOf(alarms), ElementsAre("divergence"));
  EXPECT_THAT(alarms[0].message, HasSubstr("loss diverges"));
  EXPECT_EQ(monitor.active().at("divergence"), 1);
}

TEST(HealthMonitorTest, AnAlarmClearsAndIsRaisedAgain) {
  HealthMonitor monitor(10000);
  const auto wave = [](double t) {
    return t < 0.1 ? 5 - 40 * t : 3 - 2 * std::cos(20 * (t - 0.1));
  };
  const auto kinds = KindsOf(Train(10000, wave, &monitor));
  EXPECT_GE(std::count(kinds.begin(), kinds.end(), "divergence"), 2);
}

TEST(HealthMonitorTest, NoticesALossThatNoLongerImproves) {
  HealthMonitor monitor(10000);
  const auto alarms = Train(
      10000, [](double t) { return std::max(2.0, 5 - 10 * t); }, &monitor);
  ASSERT_THAT(KindsOf(alarms), ElementsAre("plateau"));
  EXPECT_THAT(alarms[0].message, HasSubstr("has not improved since step "));
  EXPECT_EQ(monitor.active().at("plateau"), 1);
}

TEST(HealthMonitorTest, EvaluationsTellOfAPlateauInPlaceOfTheTrainingLoss) {
  HealthMonitor monitor(10000);
  std::vector<HealthMonitor::Alarm> alarms;
  for (int64_t step = 10; step <= 10000; step += 10) {
    HealthMonitor::Line line;
    line.step = step;
    line.loss = 5 - 4e-4 * static_cast<double>(step);  // Still improves.
    for (auto& alarm : monitor.Add(line)) alarms.push_back(alarm);
    if (step % 500 != 0) continue;
    HealthMonitor::Line evaluation;
    evaluation.step = step;
    evaluation.evaluation_loss =
        2 + std::abs(static_cast<double>(step) - 3000) * 1e-3;
    for (auto& alarm : monitor.Add(evaluation)) alarms.push_back(alarm);
  }
  ASSERT_THAT(KindsOf(alarms), ElementsAre("plateau"));
  EXPECT_THAT(alarms[0].message,
              HasSubstr("in 5 evaluations: it is 4.5, and was 2 at step 3000"));
}

TEST(HealthMonitorTest, NoticesAWorkerAtHalfSpeedUntilItIsFasterAgain) {
  HealthMonitor monitor(1000);
  const auto add = [&monitor](std::vector<double> micro_batch_ms, int lines) {
    std::vector<HealthMonitor::Alarm> alarms;
    for (int i = 0; i < lines; ++i) {
      HealthMonitor::Line line;
      for (size_t rank = 0; rank < micro_batch_ms.size(); ++rank) {
        line.workers.push_back({static_cast<int>(rank), micro_batch_ms[rank]});
      }
      for (auto& alarm : monitor.Add(line)) alarms.push_back(alarm);
    }
    return alarms;
  };
  EXPECT_THAT(add({10, 19, 10, 11}, 100), IsEmpty());
  EXPECT_THAT(add({10, 21, 10, 10}, 19), IsEmpty());
  EXPECT_THAT(add({10, 19, 10, 10}, 1), IsEmpty()) << "not in a row";
  const auto alarms = add({10, 21, 10, 10}, 40);
  ASSERT_THAT(alarms, SizeIs(1)) << "once";
  EXPECT_THAT(alarms[0].message,
              HasSubstr("worker 1 is slow: a micro-batch takes it 21 ms"));
  EXPECT_EQ(monitor.active().at("slow_worker"), 1);
  EXPECT_THAT(add({10, 14, 10, 10}, 1), IsEmpty());
  EXPECT_EQ(monitor.active().at("slow_worker"), 0);
  EXPECT_THAT(add({10, 21, 10, 10}, 20), SizeIs(1)) << "again";
  EXPECT_THAT(add({10}, 19), IsEmpty());
  EXPECT_EQ(monitor.active().at("slow_worker"), 1);
  EXPECT_THAT(add({10}, 81), IsEmpty()) << "there is nobody to compare with";
  EXPECT_EQ(monitor.active().at("slow_worker"), 0) << "worker 1 has left";
}

TEST(HealthMonitorTest, TellsOnceOfLossesThatAreNotFinite) {
  HealthMonitor monitor(1000);
  const auto alarms = Train(
      1000, [](double) { return std::numeric_limits<double>::quiet_NaN(); },
      &monitor);
  ASSERT_THAT(alarms, SizeIs(1));
  EXPECT_EQ(alarms[0].kind, "nonfinite_loss");
  EXPECT_THAT(alarms[0].message, HasSubstr("step 10 is not finite"));
  EXPECT_EQ(monitor.active().at("nonfinite_loss"), 1);
  EXPECT_THAT(Train(
                  1000, [](double) { return 1; }, &monitor),
              IsEmpty());
  EXPECT_EQ(monitor.active().at("nonfinite_loss"), 0);
  HealthMonitor::Line evaluation;
  evaluation.step = 7;
  evaluation.evaluation_loss = std::numeric_limits<double>::infinity();
  const auto again = monitor.Add(evaluation);
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_THAT(again[0].message, HasSubstr("the evaluation loss at step 7"));
}

TEST(HealthMonitorTest, TellsOfSkippedStepsUntilThereAreNone) {
  HealthMonitor monitor(1000);
  HealthMonitor::Line skipped;
  skipped.step = 3;
  skipped.skipped = true;
  const auto alarms = monitor.Add(skipped);
  EXPECT_THAT(KindsOf(alarms), ElementsAre("skipped_step"));
  EXPECT_THAT(alarms[0].message, HasSubstr("step 3 was skipped"));
  HealthMonitor::Line line;
  line.loss = 1;
  for (int i = 0; i < 19; ++i) monitor.Add(line);
  EXPECT_THAT(monitor.Add(skipped), IsEmpty());
  EXPECT_EQ(monitor.active().at("skipped_step"), 1);
  for (int i = 0; i < 20; ++i) monitor.Add(line);
  EXPECT_EQ(monitor.active().at("skipped_step"), 0);
  EXPECT_THAT(monitor.Add(skipped), SizeIs(1));
}

}  // namespace
}  // namespace tributary
