// Row 21: two processes claim the same rank. The newer one gets it, the older
// one ends, and the result does not change.
#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"
#include "tests/support/run_until_it_hits.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

std::string RankDirectory(const std::string& name) {
  const std::string path = absl::StrCat(testing::TempDir(), "/rank-", name);
  std::filesystem::create_directories(path);
  return path;
}

TEST(RankTest, TheNewestProcessOfARankTakesItsPlace) {
  JobSpec job = TinyJob("mlp", RankDirectory("data"));
  job.set_steps(1500);
  job.clear_epochs();
  std::string expected;
  {
    LocalCluster cluster(job, /*servers=*/2, /*expected_workers=*/1,
                         RankDirectory("undisturbed"));
    cluster.StartWorker();
    ASSERT_TRUE(cluster.Await().ok());
    expected = cluster.Summary()["weights_sha256"];
  }
  RunUntilItHits([&] {
    LocalCluster cluster(job, /*servers=*/2, /*expected_workers=*/2,
                         RankDirectory("run"));
    int newest = cluster.StartWorkerOfRank(0);
    const int other = cluster.StartWorkerOfRank(1);
    for (const int64_t step : {5, 300}) {
      cluster.AwaitStep(step);
      const int older = newest;
      newest = cluster.StartWorkerOfRank(0);
      const absl::Status status = cluster.AwaitWorker(older);
      if (status.ok()) return false;  // The job has ended before.
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("rank 0 ")));
    }
    EXPECT_TRUE(cluster.Await().ok());
    EXPECT_TRUE(cluster.worker_status(newest).ok());
    EXPECT_TRUE(cluster.worker_status(other).ok());
    EXPECT_EQ(cluster.Summary()["weights_sha256"], expected);
    return true;
  });
}

// A cluster manager restarts a failed worker with the same rank.
TEST(RankTest, ARankMayComeBack) {
  JobSpec job = TinyJob("mlp", RankDirectory("data"));
  job.set_steps(2000);
  job.clear_epochs();
  LocalCluster cluster(job, /*servers=*/1, /*expected_workers=*/2,
                       RankDirectory("back"));
  int newest = cluster.StartWorkerOfRank(0);
  cluster.StartWorkerOfRank(1);
  for (const int64_t step : {5, 300}) {
    cluster.AwaitStep(step);
    cluster.KillWorker(newest);
    newest = cluster.StartWorkerOfRank(0);
  }
  EXPECT_TRUE(cluster.Await().ok());
  EXPECT_TRUE(cluster.worker_status(newest).ok());
}

}  // namespace
}  // namespace tributary
