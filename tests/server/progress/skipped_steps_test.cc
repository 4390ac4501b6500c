// The number of skipped steps, where a round has several steps.
#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "server/progress/job_progress.h"

namespace tributary {
namespace {

// Completes a round of the only server and its only chunk.
void Complete(JobProgress* progress, int64_t round, bool finite) {
  StepSums sums;
  sums.set_step(round);
  sums.add_sum_of_squares(1);
  sums.set_weight(1);
  sums.set_loss_sum(1);
  if (!finite) sums.add_nonfinite();
  const auto norm = progress->AddSums(/*shard=*/0, sums, absl::UnixEpoch());
  ASSERT_TRUE(norm.ok()) << norm.status();
  EXPECT_TRUE(norm->has_value());
}

TEST(SkippedStepsTest, CountsTheStepsOfTheJobNotItsRounds) {
  JobSpec job;
  for (const char* const field :
       {"exchange.parameter_server.consistency.local_steps.inner_steps=3",
        "on_nonfinite=SKIP"}) {
    ASSERT_EQ(SetField(&job, field), absl::OkStatus());
  }
  DataFacts facts;
  facts.set_steps(8);
  facts.set_steps_per_epoch(8);
  JobProgress progress(job, facts, /*chunks=*/1, /*servers=*/1);
  progress.Begin(absl::UnixEpoch());
  Complete(&progress, /*round=*/0, /*finite=*/true);
  EXPECT_EQ(progress.Totals().skipped_steps, 0);
  Complete(&progress, /*round=*/1, /*finite=*/false);
  EXPECT_EQ(progress.Totals().skipped_steps, 3);
  // The last round has two steps.
  Complete(&progress, /*round=*/2, /*finite=*/false);
  EXPECT_EQ(progress.Totals().skipped_steps, 5);
  StatusReply status;
  progress.FillStatus(&status);
  EXPECT_EQ(status.skipped_steps(), 5);
}

}  // namespace
}  // namespace tributary
