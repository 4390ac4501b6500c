// JobRunner: processes that fail at their start, workers that end too early,
// and processes that do not end by themselves.
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "deploy/flags/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/launch/job/job_runner_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class JobRunnerEndTest : public JobRunnerTest {};

TEST_F(JobRunnerEndTest, AWorkerThatFailsAtItsStartIsRestartedTwice) {
  options_.workers = 1;
  options_.max_restarts = 10;
  workers_[0] = "echo 'pure virtual method called' >&2; kill -ABRT $$";
  ExpectFailure(
      "worker-0 was killed by SIGABRT: pure virtual method "
      "called, 3 times in a row");
  EXPECT_THAT(messages_, SizeIs(2));
}

TEST_F(JobRunnerEndTest, TheOtherWorkersContinueWithoutOneThatFailsAtItsStart) {
  options_.max_restarts = 10;
  workers_[0] =
      "echo 'error: segmentation fault in layer a' >&2; kill -SEGV $$";
  options_.on_tick = [this](const StatusReply&) {
    if (messages_.size() == 3) WriteFile("done");
  };
  ExpectSuccess();
  ASSERT_THAT(messages_, SizeIs(3));
  EXPECT_THAT(
      messages_[2],
      HasSubstr(
          "worker-0 was killed by SIGSEGV: segmentation fault in layer a, 3"));
  EXPECT_THAT(messages_[2], HasSubstr("1 worker continues"));
}

TEST_F(JobRunnerEndTest, AWorkerThatFailsAfterAStepIsRestartedMoreOften) {
  options_.workers = 1;
  options_.max_restarts = 10;
  workers_[0] =
      "echo once >>$DIR/starts; "
      "if [ $(wc -l <$DIR/starts) = 6 ]; then touch $DIR/done; exit 0; fi; "
      "echo 'notice: completed a step' >&4; kill -KILL $$";
  ExpectSuccess();
  EXPECT_THAT(messages_, SizeIs(5));
}

TEST_F(JobRunnerEndTest, DifferentFailuresAtTheStartAreNotAddedUp) {
  options_.workers = 1;
  options_.max_restarts = 10;
  workers_[0] =
      "echo once >>$DIR/starts; "
      "case $(wc -l <$DIR/starts) in 1|2|5) kill -KILL $$;; "
      "3|4) kill -SEGV $$;; *) touch $DIR/done;; esac";
  ExpectSuccess();
  EXPECT_THAT(messages_, SizeIs(5));
}

TEST_F(JobRunnerEndTest, AServerThatFailsAtItsStartIsRestartedTwice) {
  options_.max_restarts = 10;
  options_.server = [this](int, const std::string&) {
    return Shell("server-0", "echo 'error: memory has run out' >&2; exit 75");
  };
  ExpectFailure("server-0 failed: memory has run out, 3 times");
  EXPECT_THAT(messages_, SizeIs(2));
}

TEST_F(JobRunnerEndTest, AWorkerThatEndsBeforeItHasWorkedFailsTheJob) {
  workers_[1] = "exit 0";
  asked_ = absl::InfiniteFuture();
  ExpectFailure("worker-1 exited with code 0 before it completed a ",
                kExitUsage);
}

TEST_F(JobRunnerEndTest, AServerThatWaitsForOtherWorkersIsNotWaitedFor) {
  options_.failure_timeout = absl::Minutes(2);
  servers_[0] = kForever;
  workers_[0] = workers_[1] = "echo 'error: no data' >&2; exit 1";
  asked_ = absl::InfiniteFuture();
  const absl::Time begin = absl::Now();
  ExpectFailure("failed: no data");
  EXPECT_LT(absl::Now() - begin, absl::Minutes(1));
}

// All workers fail before server 0 explains why. Once it is told to end, its
// explanation does not count.
class ExplanationTest : public JobRunnerTest {
 protected:
  ExplanationTest() {
    options_.failure_timeout = absl::Seconds(20);
    servers_[0] = "trap '' TERM; " + UntilEnded("0") + UntilEnded("1") +
                  "echo 'error: no data' >&2; exit 2";
    workers_ = {WritePid("0") + "exit 1", WritePid("1") + "exit 1"};
  }
};

TEST_F(ExplanationTest, IsAwaitedUntilServer0HasAnswered) {
  ExpectFailure("server-0 failed: no data", 2);
}

TEST_F(ExplanationTest, IsAwaitedIfServer0KnowsOfAFailure) {
  asked_ = absl::InfiniteFuture();
  failure_ = "no data";
  ExpectFailure("server-0 failed: no data", 2);
}

TEST_F(JobRunnerEndTest, AWorkerThatTheCoordinatorHasReleasedMayEnd) {
  workers_[0] = workers_[1] = "exit 0";
  options_.on_tick = [this, ticks = 0](const StatusReply&) mutable {
    if (++ticks < 10) return;  // It has not answered.
    asked_ = absl::InfiniteFuture();
    phase_ = StatusReply::FINISHING;
    WriteFile("done");
  };
  ExpectSuccess();
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(JobRunnerEndTest, AWorkerThatEndsInTheMiddleIsRestarted) {
  options_.workers = 1;
  options_.max_restarts = 1;
  workers_[0] =
      "if [ -e $DIR/worked ]; then touch $DIR/done; exec sleep 100; fi; "
      "touch $DIR/worked; echo 'notice: completed a step' >&4; exit 0";
  asked_ = absl::InfiniteFuture();
  ExpectSuccess();
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("worker-0 exited with code 0")));
}

TEST_F(JobRunnerEndTest, AServerThatIsRestartedAtTheEndIsNotWaitedFor) {
  options_.servers = 2;
  options_.max_restarts = 1;
  servers_[0] = "while [ ! -e $DIR/again ]; do sleep 0.01; done";
  servers_[1] =
      "if [ ! -e $DIR/killed ]; then touch $DIR/killed; kill -9 $$; fi; "
      "touch $DIR/again; while :; do sleep 0.01; done";
  ExpectSuccess();
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("restart 1 of 1")));
}

TEST_F(JobRunnerEndTest, AServerThatIsKilledAfterAnotherIsDoneIsNotNeeded) {
  options_.servers = 3;
  servers_ = {UntilEnded("1"), WritePid("1") + UntilEnded("2") + "kill -9 $$",
              WritePid("2")};
  ExpectSuccess();
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(JobRunnerEndTest, ServerZeroIsRestartedWithAllThatAreDone) {
  options_.servers = 2;
  options_.max_restarts = 1;
  servers_[0] =
      "if [ -e $DIR/killed ]; then "
      "  while [ ! -e $DIR/again ]; do sleep 0.01; done; exit 0; fi; " +
      UntilEnded("1") + "touch $DIR/killed; kill -9 $$";
  servers_[1] = "if [ -e $DIR/killed ]; then touch $DIR/again; exit 0; fi; " +
                WritePid("1");
  ExpectSuccess();
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("restart 1 of 1")));
}

TEST_F(JobRunnerEndTest, SuspendedProcessesEndLikeAllOthers) {
  options_.stop_timeout = options_.silence_timeout = absl::Minutes(2);
  servers_[0] =
      "trap 'touch $DIR/asked; exit 0' TERM; kill -STOP $$; while :; do "
      "sleep 0.01; done";
  workers_[0] = "kill -STOP $$; exec sleep 100";
  workers_[1] = "touch $DIR/trapped; exec sleep 100";
  InterruptWhenTrapped();
  const absl::Time begin = absl::Now();
  EXPECT_EQ(Run().exit_code, 130);
  EXPECT_LT(absl::Now() - begin, absl::Minutes(1));
  EXPECT_TRUE(Exists("asked"));
}

TEST_F(JobRunnerEndTest, ASilentServerIsNotWaitedFor) {
  options_.stop_timeout = options_.silence_timeout = absl::Milliseconds(100);
  servers_[0] =
      "trap '' TERM; touch $DIR/trapped; while :; do sleep 0.01; done";
  InterruptWhenTrapped();
  const absl::Time begin = absl::Now();
  EXPECT_EQ(Run().exit_code, 130);
  EXPECT_LT(absl::Now() - begin, options_.drain_timeout / 2);
}

TEST_F(JobRunnerEndTest, AServerThatIsBusyStoppingIsWaitedFor) {
  absl::Time now = absl::UnixEpoch();
  options_.clock = [&now] { return now; };
  options_.silence_timeout = absl::Seconds(10);
  options_.stop_timeout = absl::Seconds(1);
  servers_[0] =
      "trap 'for i in 1 2 3 4; do "
      "echo notice: stopping the job >&4; touch $DIR/said-$i; "
      "while [ ! -e $DIR/heard-$i ]; do sleep 0.01; done; done; "
      "touch $DIR/finished; exit 75' TERM; touch $DIR/trapped; "
      "while :; do sleep 0.01; done";
  JobRunner job(options_);
  RunUntilTrapped(&job);
  job.Pause();
  EXPECT_TRUE(job.Advance());
  for (int i = 1; i <= 4; ++i) {
    ASSERT_TRUE(Await(absl::StrCat("said-", i)));
    now += absl::Seconds(9);
    EXPECT_TRUE(job.Advance());
    WriteFile(absl::StrCat("heard-", i));
  }
  while (job.Advance()) signals_.Wait(job.Patience());
  EXPECT_TRUE(job.end().paused);
  EXPECT_THAT(messages_, IsEmpty());
  EXPECT_TRUE(Exists("finished"));
}

}  // namespace
}  // namespace tributary
