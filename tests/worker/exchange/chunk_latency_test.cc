#include "worker/exchange/chunk_latency.h"

#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int64_t kFirst = 100;  // A worker may join late.

class ChunkLatencyTest : public testing::Test {
 protected:
  // Passes the steps that do not count.
  ChunkLatencyTest() {
    for (int64_t step = kFirst; step < kFirst + 3; ++step) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        latency_.Pushed(step, chunk, At(0));
        latency_.Arrived(chunk, At(1));
      }
    }
  }

  static absl::Time At(int64_t milliseconds) {
    return absl::FromUnixMillis(1'000'000 + milliseconds);
  }
  LatencyHistogram Histogram() const {
    return LatencyHistogram(latency_.counts());
  }
  void ExpectOne(int64_t milliseconds) const {
    const double expected = static_cast<double>(milliseconds);
    EXPECT_EQ(Histogram().count(), 1);
    EXPECT_NEAR(absl::ToDoubleMilliseconds(Histogram().Quantile(0.5)), expected,
                expected / 8);
  }

  ChunkLatency latency_{/*chunks=*/2};
};

TEST_F(ChunkLatencyTest, TheFirstStepsDoNotCount) {
  EXPECT_EQ(Histogram().count(), 0);
}

TEST_F(ChunkLatencyTest, RunsFromThePushToTheNextVersion) {
  latency_.Pushed(kFirst + 3, 1, At(10));
  latency_.Arrived(0, At(15));  // Another chunk.
  latency_.Arrived(1, At(30));
  latency_.Arrived(1, At(90));  // Nothing was pushed for it.
  ExpectOne(20);
}

TEST_F(ChunkLatencyTest, OfSeveralNodesTheLastCounts) {
  latency_.Pushed(kFirst + 3, 0, At(10));
  latency_.Pushed(kFirst + 3, 0, At(40));
  latency_.Arrived(0, At(50));
  ExpectOne(10);
}

TEST_F(ChunkLatencyTest, StepsThatAreOpenAtOnceEndInTheirOrder) {
  latency_.Pushed(kFirst + 3, 0, At(0));
  latency_.Pushed(kFirst + 4, 0, At(10));
  latency_.Arrived(0, At(40));
  ExpectOne(40);
  latency_.Arrived(0, At(50));
  EXPECT_EQ(Histogram().count(), 2);
}

TEST_F(ChunkLatencyTest, KeepsABoundedNumberOfOpenSteps) {
  for (int64_t step = 3; step < 1000; ++step) {
    latency_.Pushed(kFirst + step, 0, At(step));
  }
  for (int i = 0; i < 1000; ++i) latency_.Arrived(0, At(2000));
  EXPECT_EQ(Histogram().count(), 64);
}

}  // namespace
}  // namespace tributary
