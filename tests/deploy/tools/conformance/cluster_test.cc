#include "deploy/tools/conformance/cluster.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job/job.h"
#include "deploy/tools/conformance/scenarios.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

class ClusterTest : public testing::Test {
 protected:
  ClusterTest() {
    options_.folder = folder_ + "/run";
    options_.log = folder_ + "/server.log";
    options_.job = ResolveJob(*ParseJob(*ConformanceJob(folder_), "job"));
  }

  const std::string folder_ = MakeTestFolder();
  Cluster::Options options_;
};

TEST_F(ClusterTest, AServerThatDoesNotListenEndsTheJob) {
  options_.servers = 2;
  options_.run = [](const ServerOptions& server, Shutdown* shutdown) {
    if (server.shard == 1) return absl::UnavailableError("no free port");
    return RunServer(server, shutdown);
  };
  Cluster cluster(options_);
  EXPECT_THAT(cluster.start(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(*cluster.end(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ClusterTest, WithoutServer0NoOtherServerStarts) {
  options_.servers = 2;
  options_.run = [](const ServerOptions& server, Shutdown*) {
    EXPECT_EQ(server.shard, 0);
    return absl::UnavailableError("no free port");
  };
  Cluster cluster(options_);
  EXPECT_THAT(cluster.start(), StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_EQ(cluster.addresses()[1], "");
}

TEST_F(ClusterTest, TheBuiltInWorkerHasAResult) {
  const absl::StatusOr<RunResult> result =
      TrainBuiltIn(options_, TrainingSources(), [] {
        absl::SleepFor(absl::Milliseconds(1));
        return absl::OkStatus();
      });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->losses.count(12), 1);  // The last step.
  EXPECT_EQ(result->weights.count("output.weight"), 1);
  EXPECT_TRUE(result->evaluation_loss.has_value());
}

TEST_F(ClusterTest, TheBuiltInWorkerCanBeStopped) {
  options_.job.set_steps(int64_t{1} << 40);
  int ticks = 0;
  EXPECT_THAT(TrainBuiltIn(options_, TrainingSources(),
                           [&ticks] {
                             return ++ticks < 3
                                        ? absl::OkStatus()
                                        : absl::DeadlineExceededError("late");
                           })
                  .status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, "late"));
  EXPECT_EQ(ticks, 3);
}

}  // namespace
}  // namespace tributary
