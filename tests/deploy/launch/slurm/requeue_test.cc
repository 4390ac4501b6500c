#include "deploy/launch/slurm/requeue.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr char kPreempted[] =
    "JobId=1 JobState=RUNNING Reason=None PreemptTime=2026-11-23T20:40:56 x";
constexpr char kRunning[] = "JobId=1 JobState=RUNNING PreemptTime=None";

TEST(RequeueTest, FollowsANotice) {
  for (const int signal : {SIGUSR1, SIGUSR2}) {
    EXPECT_TRUE(MustRequeue(signal, kRunning));
    EXPECT_TRUE(MustRequeue(signal, kPreempted));
  }
}

TEST(RequeueTest, FollowsASigtermOnlyIfTheJobIsPreempted) {
  EXPECT_TRUE(MustRequeue(SIGTERM, kPreempted));
  EXPECT_FALSE(MustRequeue(SIGTERM, kRunning));
  EXPECT_FALSE(MustRequeue(SIGTERM, "JobState=RUNNING PreemptTime=N/A"));
  EXPECT_FALSE(MustRequeue(SIGTERM, "JobState=RUNNING"));
  EXPECT_FALSE(MustRequeue(SIGINT, kPreempted));
}

TEST(RequeueTest, DoesNotReviveACancelledJob) {
  for (const char* state : {"CANCELLED", "COMPLETING", "PENDING"}) {
    EXPECT_FALSE(MustRequeue(
        SIGUSR1, std::string("JobState=") + state + " PreemptTime=None"));
  }
  EXPECT_FALSE(MustRequeue(SIGUSR1, ""));
}

}  // namespace
}  // namespace tributary
