// What the coordinator tells of a job: where its time goes, and who waits.
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/metrics/metrics_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator/coordinator.h"
#include "tests/server/coordinator/coordinator_fixture.h"

namespace tributary {
namespace {

TEST_F(CoordinatorTest, SaysWhereTheTimeGoesAndWhomTheOthersWaitFor) {
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/3);
  FakeWorker first, second;
  EnterAll({&first, &second});
  const auto beat = [this](FakeWorker* worker, double forward,
                           double backward) {
    WorkerReport report;
    ProcessStatistics* statistics =
        report.mutable_heartbeat()->mutable_statistics();
    statistics->set_steps(2);
    statistics->set_leaves(4);
    statistics->set_forward_seconds(2 * forward);
    statistics->set_backward_seconds(2 * backward);
    statistics->set_data_seconds(2 * 0.001);
    statistics->set_exchange_seconds(2 * 0.004);
    ASSERT_TRUE(Say(worker, report).ok());
  };
  beat(&first, 0.010, 0.020);
  beat(&second, 0.012, 0.050);
  now_ += absl::Milliseconds(80);
  ServerReport report;
  StepSums* sums = report.mutable_sums();
  for (const double square : {1, 1, 1}) sums->add_sum_of_squares(square);
  sums->set_weight(8);
  sums->add_contributor(first.incarnation);
  sums->add_contributor_seconds(0.25f);
  sums->add_contributor(second.incarnation);
  sums->add_contributor_seconds(0.28125f);
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, report).ok());
  ASSERT_EQ(metrics_.size(), 1);
  EXPECT_EQ(metrics_[0]["workers"],
            ParseOrderedJson(
                R"([{"rank": 0, "leaves": 2.0, "forward_ms": 10.0,
                     "backward_ms": 20.0, "data_ms": 1.0, "exchange_ms": 4.0,
                     "waiting_ms": 31.25},
                    {"rank": 1, "leaves": 2.0, "forward_ms": 12.0,
                     "backward_ms": 50.0, "data_ms": 1.0, "exchange_ms": 4.0,
                     "waiting_ms": 0.0}])"));
  EXPECT_EQ(
      metrics_[0]["waiting"],
      ParseOrderedJson(R"({"rank": 1, "ms": 31.25, "phase": "backward"})"));
  const StatusReply status = coordinator_->GetStatus();
  EXPECT_EQ(status.model(), "mlp");
  EXPECT_EQ(status.waiting_rank(), 1);
  EXPECT_EQ(status.waiting_milliseconds(), 31.25);
  EXPECT_EQ(status.waiting_phase(), "backward");
  EXPECT_NEAR(status.compute_share(), 92.0 / 102, 1e-9);
  EXPECT_NEAR(status.exchange_share(), 8.0 / 102, 1e-9);
  // summary.json says the same of the whole run.
  for (FakeWorker* worker : {&first, &second}) {
    WorkerReport farewell;
    farewell.mutable_farewell()->mutable_statistics()->set_forward_seconds(0.5);
    ASSERT_TRUE(Say(worker, farewell).ok());
  }
  const nlohmann::ordered_json summary =
      ParseOrderedJson(coordinator_->Summary());
  EXPECT_EQ(summary["processes"][0]["forward_seconds"], 0.5);
  EXPECT_EQ(summary["processes"][0]["waiting_seconds"], 0.03125);
  EXPECT_EQ(summary["processes"][1]["waited_for_seconds"], 0.03125);
  EXPECT_EQ(summary["waiting_seconds"], 0.03125);
}

TEST_F(CoordinatorTest, ShowsThePublicMetricsOfAJob) {
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/3);
  const auto page = [this] {
    MetricsPage metrics;
    coordinator_->AddMetrics(&metrics);
    return metrics.text();
  };
  EXPECT_THAT(page(), testing::HasSubstr(
                          "tributary_job_info{model=\"mlp\",phase=\"waiting\"} "
                          "1\n"));
  FakeWorker first, second;
  EnterAll({&first, &second});
  now_ += absl::Milliseconds(80);
  ServerReport report;
  StepSums* sums = report.mutable_sums();
  for (const double square : {9, 16, 0}) sums->add_sum_of_squares(square);
  sums->set_weight(8);
  sums->set_loss_sum(4);
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, report).ok());
  ASSERT_EQ(metrics_.size(), 1);
  // The same values as in metrics.jsonl.
  EXPECT_THAT(
      page(),
      testing::AllOf(
          testing::HasSubstr("phase=\"training\"} 1\n"),
          testing::HasSubstr("\ntributary_step 1\n"),
          testing::HasSubstr("\ntributary_steps 3\n"),
          testing::HasSubstr("\ntributary_attempt 1\n"),
          testing::HasSubstr(absl::StrCat(
              "\ntributary_loss ", metrics_[0]["loss"].get<double>(), "\n")),
          testing::HasSubstr(
              absl::StrCat("\ntributary_gradient_norm ",
                           metrics_[0]["gradient_norm"].get<double>(), "\n")),
          testing::HasSubstr("tributary_samples_total{unit=\"\"} 8\n"),
          testing::HasSubstr("\ntributary_workers 2\n"),
          testing::HasSubstr("\ntributary_workers_lost_total 0\n"),
          testing::HasSubstr("\ntributary_checkpoint_failures_total 0\n")));
  coordinator_->OnWorkerDisconnected(second.incarnation);
  EXPECT_THAT(page(), testing::HasSubstr("\ntributary_workers_lost_total 1\n"));
}

TEST_F(CoordinatorTest, NamesWhoHoldsUpAStepThatDoesNotEnd) {
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/3);
  FakeWorker first, second;
  EnterAll({&first, &second});
  const auto beat = [this](FakeWorker* worker, const std::string& phase) {
    WorkerReport report;
    report.mutable_heartbeat()->set_phase(phase);
    ASSERT_TRUE(Say(worker, report).ok());
  };
  beat(&first, "exchange");
  beat(&second, "data");
  EXPECT_EQ(coordinator_->GetStatus().waiting_milliseconds(), 0);
  now_ += absl::Seconds(5);
  StatusReply status = coordinator_->GetStatus();
  EXPECT_EQ(status.waiting_rank(), 1);
  EXPECT_EQ(status.waiting_milliseconds(), 5000);
  EXPECT_EQ(status.waiting_phase(), "data");
}

TEST_F(CoordinatorTest, BreaksRoundsOfLocalStepsDownToSteps) {
  options_.job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_local_steps()
      ->set_inner_steps(4);
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/12);
  FakeWorker first, second;
  EnterAll({&first, &second});
  WorkerReport beat;
  beat.mutable_heartbeat()->set_step(1);
  beat.mutable_heartbeat()->set_phase("exchange");
  ProcessStatistics* statistics =
      beat.mutable_heartbeat()->mutable_statistics();
  statistics->set_steps(1);
  statistics->set_leaves(2);
  statistics->set_forward_seconds(0.040);
  ASSERT_TRUE(Say(&first, beat).ok());
  now_ += absl::Milliseconds(400);
  ServerReport report;
  StepSums* sums = report.mutable_sums();
  for (const double square : {1, 1, 1}) sums->add_sum_of_squares(square);
  sums->set_weight(32);
  sums->add_contributor(first.incarnation);
  sums->add_contributor_seconds(0);
  sums->add_contributor(second.incarnation);
  sums->add_contributor_seconds(0.125f);
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, report).ok());
  ASSERT_EQ(metrics_.size(), 1);
  EXPECT_EQ(metrics_[0]["step"], 4);
  EXPECT_EQ(metrics_[0]["workers"][0]["leaves"], 2.0);
  EXPECT_EQ(metrics_[0]["workers"][0]["forward_ms"], 10.0);
  EXPECT_EQ(metrics_[0]["workers"][0]["waiting_ms"], 31.25);
  EXPECT_EQ(metrics_[0]["waiting"]["ms"], 31.25);
  // A round takes 400 ms: not yet unusual after 2 seconds, then it is.
  beat.mutable_heartbeat()->set_phase("forward");
  ASSERT_TRUE(Say(&second, beat).ok());
  now_ += absl::Seconds(1.9);
  EXPECT_EQ(coordinator_->GetStatus().waiting_milliseconds(), 31.25);
  now_ += absl::Seconds(0.2);
  EXPECT_EQ(coordinator_->GetStatus().waiting_milliseconds(), 2100);
  EXPECT_EQ(coordinator_->GetStatus().waiting_rank(), 1);
}

TEST_F(CoordinatorTest, SaysWhoWaitsForWhom) {
  Make(/*servers=*/2, /*expected_workers=*/2, /*steps=*/2, /*pieces=*/0,
       /*clip_norm=*/0, /*present=*/1);
  FakeWorker first, second;
  ASSERT_TRUE(Join(&first).ok());
  StatusReply status = coordinator_->GetStatus();
  ASSERT_EQ(status.process_size(), 3);
  EXPECT_EQ(status.process(0).waits_for(), "server 1");
  EXPECT_EQ(status.process(1).phase(), "absent");
  EXPECT_EQ(status.process(2).waits_for(), "server 1");

  Make(/*servers=*/2, /*expected_workers=*/2);
  ASSERT_TRUE(Join(&first).ok());
  ASSERT_TRUE(SayReady(&first).ok());
  EXPECT_EQ(coordinator_->GetStatus().process(2).waits_for(), "other workers");
  ASSERT_TRUE(Join(&second).ok());
  ASSERT_TRUE(SayReady(&second).ok());
  SayConfigured();
  SaySynced(&first);
  EXPECT_EQ(coordinator_->GetStatus().process(2).waits_for(), "other workers");
  SaySynced(&second);
  WorkerReport beat;
  beat.mutable_heartbeat()->set_phase("exchange");
  ASSERT_TRUE(Say(&first, beat).ok());
  beat.mutable_heartbeat()->set_phase("backward");
  ASSERT_TRUE(Say(&second, beat).ok());
  now_ += absl::Seconds(2);
  status = coordinator_->GetStatus();
  ASSERT_EQ(status.process_size(), 4);
  for (const int waiting : {0, 1, 2}) {
    EXPECT_EQ(status.process(waiting).waits_for(), "worker 1: backward");
  }
  EXPECT_EQ(status.process(3).waits_for(), "");
  EXPECT_EQ(status.process(3).silent_ms(), 2000);
  EXPECT_EQ(status.process(0).silent_ms(), -1);
}

TEST_F(CoordinatorTest, AWorkerWithoutMicroBatchesIsASpare) {
  Make(/*servers=*/1, /*expected_workers=*/5);  // There are 4 micro-batches.
  FakeWorker workers[5];
  EnterAll({&workers[0], &workers[1], &workers[2], &workers[3], &workers[4]});
  const StatusReply status = coordinator_->GetStatus();
  ASSERT_EQ(status.process_size(), 1 + 5);
  for (int worker = 0; worker < 4; ++worker) {
    EXPECT_EQ(status.process(1 + worker).waits_for(), "");
  }
  EXPECT_EQ(status.process(5).waits_for(), "micro-batches: it is a spare");
}

TEST_F(CoordinatorTest, DescribesEachProcess) {
  options_.lease = absl::Seconds(10);
  Make(/*servers=*/1, /*expected_workers=*/2, /*steps=*/3);
  FakeWorker first, second;
  EnterAll({&first, &second});
  WorkerReport beat;
  ProcessStatistics* const statistics =
      beat.mutable_heartbeat()->mutable_statistics();
  statistics->set_memory_bytes(123);
  statistics->set_shared_bytes_sent(45);
  statistics->mutable_chunk_latency()->add_count(1);
  ASSERT_TRUE(Say(&first, beat).ok());
  ServerReport server;
  server.mutable_heartbeat()->mutable_statistics()->set_memory_bytes(67);
  ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, server).ok());
  now_ += absl::Seconds(4);
  const StatusReply status = coordinator_->GetStatus();
  EXPECT_GT(status.parameters(), 0);
  EXPECT_EQ(status.workers_lost(), 0);
  ASSERT_EQ(status.process_size(), 3);
  EXPECT_EQ(status.process(0).lease_left_ms(), -1);
  EXPECT_EQ(status.process(0).statistics().memory_bytes(), 67);
  const ProcessStatus& worker = status.process(1);
  EXPECT_EQ(worker.lease_left_ms(), 6000);
  EXPECT_EQ(worker.statistics().memory_bytes(), 123);
  EXPECT_EQ(worker.statistics().shared_bytes_sent(), 45);
  EXPECT_FALSE(worker.statistics().has_chunk_latency());
  EXPECT_EQ(worker.leaf_begin(), 0);
  EXPECT_EQ(worker.leaf_end(), status.process(2).leaf_begin());
  EXPECT_EQ(status.process(2).leaf_end(), options_.job.batch().micro_batches());
  coordinator_->OnWorkerDisconnected(first.incarnation);
  EXPECT_EQ(coordinator_->GetStatus().workers_lost(), 1);
}

TEST_F(CoordinatorTest, NamesTheHostAndTheReleaseOfAProcess) {
  Make(/*servers=*/2, /*expected_workers=*/1);
  tributary::Join join;
  join.set_protocol_version(kProtocolVersion);
  join.set_rank(-1);
  join.set_host("<script>");
  join.set_pid(4711);
  join.set_release("0.2.0");
  FakeWorker worker;
  ASSERT_TRUE(coordinator_->AddWorker(join, &worker).ok());
  const ProcessStatus process = coordinator_->GetStatus().process(2);
  EXPECT_EQ(process.host(), "<script>");
  EXPECT_EQ(process.pid(), 4711);
  EXPECT_EQ(process.release(), "0.2.0");
  EXPECT_EQ(process.lease_left_ms(), 10000);
}

}  // namespace
}  // namespace tributary
