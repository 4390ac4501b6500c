#include "deploy/launch/plan/local_timing.h"

#include <memory>

#include "absl/time/time.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

TEST(EnoughRepetitionsTest, FastOnesAreRepeatedForASecond) {
  EXPECT_FALSE(EnoughRepetitions(0, absl::ZeroDuration()));
  EXPECT_FALSE(EnoughRepetitions(1000, absl::Milliseconds(999)));
  EXPECT_TRUE(EnoughRepetitions(1000, absl::Seconds(1)));
}

TEST(EnoughRepetitionsTest, SlowOnesAreRepeatedThreeTimes) {
  EXPECT_FALSE(EnoughRepetitions(3, absl::Seconds(6)));
  EXPECT_TRUE(EnoughRepetitions(4, absl::Seconds(8)));
}

TEST(EnoughRepetitionsTest, VerySlowOnesAreNotRepeated) {
  EXPECT_FALSE(EnoughRepetitions(0, absl::Seconds(20)));
  EXPECT_TRUE(EnoughRepetitions(1, absl::Minutes(3)));
}

TEST(TimeMicroBatchTest, TimesChunksOnEitherClock) {
  const std::unique_ptr<TrainingSetup> setup =
      TrainingSetup::Create(ResolveJob(TinyJob("mlp", testing::TempDir())),
                            /*threads=*/2)
          .value();
  for (const TimingClock clock :
       {TimingClock::kWall, TimingClock::kThreadCpu}) {
    const ComputeProfile profile = TimeMicroBatch(*setup, clock).value();
    EXPECT_GT(profile.seconds, 0);
    for (int chunk = 0; chunk < setup->layout().chunk_count(); ++chunk) {
      EXPECT_LE(profile.needed_at[chunk], profile.ready_at[chunk]) << chunk;
      EXPECT_LE(profile.ready_at[chunk], profile.seconds) << chunk;
    }
  }
}

}  // namespace
}  // namespace tributary
