#include "common/update/sample_counts.h"

#include <algorithm>

#include "common/job/rounds.h"
#include "common/parameters/reduction_tree.h"
#include "gtest/gtest.h"
#include "worker/data/sampler.h"

namespace tributary {
namespace {

JobSpec Job(int64_t global, int64_t micro_batches) {
  JobSpec job;
  job.mutable_model()->mutable_mlp();
  job.mutable_batch()->set_global(global);
  job.mutable_batch()->set_micro_batches(micro_batches);
  return job;
}

// Counts the samples that workers select.
int64_t Counted(const JobSpec& job, int64_t steps, int64_t samples,
                int64_t round, int node) {
  const int leaves = static_cast<int>(job.batch().micro_batches());
  const Rounds rounds(job, steps);
  const Sampler sampler(/*seed=*/1, samples, job.batch().global(), leaves);
  const LeafRange range = LeavesUnder(node, leaves);
  int64_t count = 0;
  for (int64_t step = rounds.StepsAfter(round);
       step < rounds.StepsAfter(round + 1); ++step) {
    for (int leaf = range.begin; leaf < range.end; ++leaf) {
      count +=
          static_cast<int64_t>(sampler.MicroBatchOf(step, leaf).indexes.size());
    }
  }
  return count;
}

TEST(SampleCountsTest, AreThoseOfTheSampler) {
  for (const int64_t samples : {1, 31, 32, 33, 100, 4000}) {
    for (const int64_t inner_steps : {1, 3, 7}) {
      JobSpec job = Job(/*global=*/32, /*micro_batches=*/8);
      if (inner_steps > 1) {
        job.mutable_exchange()
            ->mutable_parameter_server()
            ->mutable_consistency()
            ->mutable_local_steps()
            ->set_inner_steps(inner_steps);
      }
      constexpr int64_t kSteps = 11;
      const SampleCounts counts(job, kSteps, samples);
      for (int64_t round = 0; round < Rounds(job, kSteps).count(); ++round) {
        for (int node = 1; node < 16; ++node) {
          EXPECT_EQ(counts.Of(round, node),
                    Counted(job, kSteps, samples, round, node))
              << samples << " samples, round " << round << " of " << inner_steps
              << " steps, node " << node;
        }
      }
    }
  }
}

TEST(SampleCountsTest, CountTheTokensOfATextsSamples) {
  JobSpec job = Job(/*global=*/8, /*micro_batches=*/4);
  job.mutable_model()->mutable_gpt()->set_context(64);
  const SampleCounts counts(job, /*steps=*/5, /*train_samples=*/20);
  EXPECT_EQ(counts.Of(/*round=*/0, /*node=*/1), 8 * 64);
  EXPECT_EQ(counts.Of(/*round=*/2, /*node=*/1), 4 * 64);
  EXPECT_EQ(counts.Of(/*round=*/2, /*node=*/6), 0);
  EXPECT_TRUE(counts.exact());
  EXPECT_TRUE(counts.Allows(/*round=*/0, /*node=*/1, 8 * 64));
  EXPECT_FALSE(counts.Allows(/*round=*/0, /*node=*/1, 8 * 64 - 1));
}

TEST(SampleCountsTest, AreUpperBoundsForExternalData) {
  JobSpec job = Job(/*global=*/8, /*micro_batches=*/4);
  job.mutable_data()->mutable_external()->set_units_per_sample(64);
  const SampleCounts counts(job, /*steps=*/5, /*train_samples=*/20);
  EXPECT_FALSE(counts.exact());
  EXPECT_EQ(counts.Of(/*round=*/0, /*node=*/1), 8 * 64);
  for (const int64_t count : {0, 1, 8 * 64}) {
    EXPECT_TRUE(counts.Allows(/*round=*/0, /*node=*/1, count)) << count;
  }
  EXPECT_FALSE(counts.Allows(/*round=*/0, /*node=*/1, 8 * 64 + 1));
  EXPECT_FALSE(counts.Allows(/*round=*/2, /*node=*/6, 1));
}

}  // namespace
}  // namespace tributary
