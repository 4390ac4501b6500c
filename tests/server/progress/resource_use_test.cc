#include "server/progress/resource_use.h"

#include <string>
#include <vector>

#include "common/job/job.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/progress/job_progress.h"

namespace tributary {
namespace {

absl::Time SecondsAt(double seconds) {
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

ProcessStatistics Totals(double cpu_seconds, int64_t sent) {
  ProcessStatistics totals;
  totals.set_cpu_seconds(cpu_seconds);
  totals.set_bytes_sent(sent);
  totals.set_bytes_received(2 * sent);
  totals.set_memory_bytes(5000);
  return totals;
}

TEST(ResourceUseTest, ReportsMeansSinceThePreviousRecord) {
  ResourceUse use;
  EXPECT_TRUE(use.Take(SecondsAt(0), absl::ZeroDuration()).is_null());
  use.Add("worker", 1, Totals(10, 1000), SecondsAt(0));
  use.Add("server", 0, Totals(1, 0), SecondsAt(0));
  use.Add("worker", 1, Totals(13, 5000), SecondsAt(2));
  ProcessStatistics gpu = Totals(1, 0);
  gpu.set_shared_bytes_sent(400);
  gpu.set_gpu_percent(0);
  gpu.set_gpu_memory_bytes(77);
  use.Add("server", 0, gpu, SecondsAt(4));
  EXPECT_EQ(use.Take(SecondsAt(4), absl::Seconds(4)),
            nlohmann::ordered_json::parse(R"([
      {"role": "server", "number": 0, "cpus": 0.0, "memory_bytes": 5000,
       "sent_per_second": 0.0, "received_per_second": 0.0,
       "shared_sent_per_second": 100.0, "shared_received_per_second": 0.0,
       "gpu_percent": 0, "gpu_memory_bytes": 77},
      {"role": "worker", "number": 1, "cpus": 1.5, "memory_bytes": 5000,
       "sent_per_second": 2000.0, "received_per_second": 4000.0}])"));
  // Only the worker has sent a further heartbeat.
  use.Add("worker", 1, Totals(14, 5000), SecondsAt(4));
  const auto next = use.Take(SecondsAt(6), absl::Seconds(6));
  ASSERT_EQ(next.size(), 1);
  EXPECT_EQ(next[0]["role"], "worker");
  EXPECT_EQ(next[0]["cpus"], 0.5);
}

TEST(ResourceUseTest, ForgetsProcessesThatEndOrRestart) {
  ResourceUse use;
  for (const int rank : {0, 1}) {
    use.Add("worker", rank, Totals(10, 1000), SecondsAt(0));
  }
  use.Add("worker", 0, Totals(1, 10), SecondsAt(1));  // A new process.
  use.Add("worker", 0, Totals(2, 20), SecondsAt(2));
  use.Add("worker", 1, Totals(11, 1000), SecondsAt(2));
  use.Remove("worker", 1);
  const auto record = use.Take(SecondsAt(2), absl::Seconds(2));
  ASSERT_EQ(record.size(), 1);
  EXPECT_EQ(record[0]["number"], 0);
  EXPECT_EQ(record[0]["cpus"], 1.0);
  EXPECT_EQ(record[0]["sent_per_second"], 10);
}

// A job of a month that completes a line of metrics ten times a second.
TEST(ResourceUseTest, BoundsTheNumberOfRecordsOfALongRun) {
  ResourceUse use;
  int records = 0;
  constexpr int kSeconds = 30 * 24 * 3600;
  double step = 0.1;
  for (double now = 0; now < kSeconds; now += step) {
    if (now > 3600) step = 1;
    use.Add("worker", 0, Totals(now, 0), SecondsAt(now));
    if (!use.Take(SecondsAt(now), absl::Seconds(now)).is_null()) ++records;
  }
  EXPECT_GT(records, 1000);
  EXPECT_LT(records, 6000);
}

TEST(ResourceUseTest, IsInALineOfMetricsOncePerSecond) {
  JobSpec job;
  ASSERT_EQ(SetField(&job, "output.log_every_steps=1"), absl::OkStatus());
  DataFacts facts;
  facts.set_steps(8);
  facts.set_steps_per_epoch(8);
  JobProgress progress(job, facts, /*chunks=*/1, /*servers=*/1);
  progress.Begin(SecondsAt(0));
  progress.resources()->Add("server", 0, Totals(1, 0), SecondsAt(0));
  progress.resources()->Add("server", 0, Totals(2.5, 0), SecondsAt(1));
  // At step 0 it is due; at step 1, a second has not passed.
  for (const double now : {1.0, 1.5}) {
    StepSums sums;
    sums.set_step(progress.round());
    sums.add_sum_of_squares(1);
    sums.set_weight(1);
    sums.set_loss_sum(1);
    ASSERT_TRUE(progress.AddSums(/*shard=*/0, sums, SecondsAt(now)).ok());
    progress.resources()->Add("server", 0, Totals(3, 0), SecondsAt(now));
  }
  const std::vector<std::string> lines = progress.TakeMetrics();
  ASSERT_EQ(lines.size(), 2);
  const auto first = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(first["resources_count"], 1);
  EXPECT_EQ(first["resources"][0]["cpus"], 1.5);
  EXPECT_FALSE(nlohmann::json::parse(lines[1]).contains("resources"));
}

}  // namespace
}  // namespace tributary
