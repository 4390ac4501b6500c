#include "deploy/flags/worker_count.h"

#include <limits>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

TEST(WorkerCountTest, ReadsANumberAndARange) {
  const auto four = ParseWorkerCount("4", 16);
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(four->fewest, 4);
  EXPECT_EQ(four->most, 4);
  EXPECT_EQ(four->ToString(), "4");
  const auto range = ParseWorkerCount("1:16", 16);
  ASSERT_TRUE(range.ok()) << range.status();
  EXPECT_EQ(range->fewest, 1);
  EXPECT_EQ(range->most, 16);
  EXPECT_EQ(range->ToString(), "1:16");
}

TEST(WorkerCountTest, RefusesEverythingElse) {
  for (const char* text : {"", "0", "-1", "17", "x", "1:", ":2", "2:1", "1:17",
                           "0:2", "1:2:3", "1.5", "1 :2x"}) {
    EXPECT_THAT(ParseWorkerCount(text, 16),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::HasSubstr("MIN:MAX, as in 1:8")))
        << text;
  }
}

TEST(WorkerCountTest, MicroBatchesLimitHowManyCompute) {
  JobSpec job;
  job.mutable_batch()->set_micro_batches(8);
  EXPECT_EQ(MostComputing(job), 8);
  job.mutable_exchange()->mutable_all_reduce();
  EXPECT_EQ(MostComputing(job), 8);
  job.mutable_parallel()->mutable_pipeline()->set_stages(3);
  EXPECT_EQ(MostComputing(job), 24);
  job.clear_parallel();
  // Each of these workers computes whole batches.
  job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_asynchronous();
  EXPECT_EQ(MostComputing(job), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace tributary
