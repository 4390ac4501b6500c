#include "worker/process/worker_metrics.h"

#include "absl/strings/str_cat.h"
#include "common/metrics/metrics_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(WorkerMetricsTest, ShowsTheStatisticsOfAHeartbeat) {
  Heartbeat heartbeat;
  heartbeat.set_step(7);
  heartbeat.set_phase("backward");
  ProcessStatistics* const statistics = heartbeat.mutable_statistics();
  statistics->set_leaves(40);
  statistics->set_forward_seconds(1.5);
  statistics->set_backward_seconds(2.5);
  statistics->set_exchange_seconds(0.25);
  statistics->set_data_seconds(0.125);
  statistics->set_evaluation_seconds(4);
  statistics->set_bytes_sent(1000);
  statistics->set_bytes_received(2000);
  statistics->set_shared_bytes_sent(300);
  statistics->set_shared_bytes_received(400);
  MetricsPage page;
  AddWorkerMetrics(/*rank=*/3, heartbeat, &page);
  for (const char* line :
       {"tributary_worker_info{rank=\"3\",phase=\"backward\"} 1\n",
        "\ntributary_worker_step 7\n",
        "\ntributary_worker_micro_batches_total 40\n",
        "_worker_seconds_total{activity=\"forward\"} 1.5\n",
        "_worker_seconds_total{activity=\"backward\"} 2.5\n",
        "_worker_seconds_total{activity=\"exchange\"} 0.25\n",
        "_worker_seconds_total{activity=\"data\"} 0.125\n",
        "_worker_seconds_total{activity=\"evaluation\"} 4\n",
        "_bytes_total{direction=\"sent\",transport=\"stream\"} 1000\n",
        "_bytes_total{direction=\"received\",transport=\"stream\"} 2000\n",
        "{direction=\"sent\",transport=\"shared_memory\"} 300\n",
        "{direction=\"received\",transport=\"shared_memory\"} 400\n"}) {
    EXPECT_THAT(page.text(), HasSubstr(line));
  }
}

// DurationCounts: interval 8 j + m begins at m * 2^j nanoseconds.
TEST(WorkerMetricsTest, SortsLatenciesIntoBucketsOfSeconds) {
  Heartbeat heartbeat;
  DurationCounts* const latency =
      heartbeat.mutable_statistics()->mutable_chunk_latency();
  // 8 * 2^17 = 1.049 ms to 9 * 2^17 = 1.180 ms.
  for (int i = 0; i <= 8 * 17 + 8; ++i) latency->add_count(0);
  latency->set_count(8 * 17 + 8, 5);
  MetricsPage page;
  AddWorkerMetrics(0, heartbeat, &page);
  for (const char* line : {"_bucket{le=\"0.001\"} 0\n", "_count 5\n",
                           "_bucket{le=\"0.002\"} 5\n", "_sum 0.00557"}) {
    EXPECT_THAT(page.text(), HasSubstr(absl::StrCat(
                                 "tributary_chunk_latency_seconds", line)));
  }
}

TEST(WorkerMetricsTest, ShowsTheGpuButNotWhatItsDriverDoesNotReport) {
  GpuReport gpu;
  gpu.name = "A \"GPU\"";
  gpu.bus_id = "0000:3b:00.0";
  gpu.memory_bytes = 80;
  gpu.used_bytes = 20;
  MetricsPage silent;
  AddGpuMetrics(gpu, &silent);
  EXPECT_THAT(
      silent.text(),
      AllOf(HasSubstr("tributary_gpu_info{bus_id=\"0000:3b:00.0\",name=\"A "
                      "\\\"GPU\\\"\"} 1\n"),
            HasSubstr("\ntributary_gpu_memory_bytes 80\n"),
            HasSubstr("\ntributary_gpu_memory_used_bytes 20\n"),
            Not(HasSubstr("utilization"))));
  gpu.utilization_percent = 50;
  MetricsPage page;
  AddGpuMetrics(gpu, &page);
  EXPECT_THAT(page.text(),
              HasSubstr("\ntributary_gpu_utilization_ratio 0.5\n"));
}

}  // namespace
}  // namespace tributary
