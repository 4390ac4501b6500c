#include "common/base/thread_pool.h"

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(ParallelForTest, DoesEachItemOnce) {
  for (const int threads : {1, 3, 8}) {
    for (const int64_t items : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> done(items);
      const absl::Status status =
          ParallelFor(threads, items, [&](int thread, int64_t item) {
            EXPECT_GE(thread, 0);
            EXPECT_LT(thread, threads);
            ++done[item];
            return absl::OkStatus();
          });
      EXPECT_TRUE(status.ok());
      for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ParallelForTest, StopsAThreadAtItsFirstError) {
  int done = 0;
  const absl::Status status =
      ParallelFor(/*threads=*/1, /*items=*/10, [&](int, int64_t item) {
        ++done;
        return item < 3 ? absl::OkStatus() : absl::DataLossError("");
      });
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_EQ(done, 4);
}

}  // namespace
}  // namespace tributary
