#include "deploy/launch/job/job_runner.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deploy/launch/job/job_runner_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(JobRunnerTest, IsDoneWhenServer0Is) {
  options_.servers = 2;
  workers_[1] = absl::StrCat("touch $DIR/done");
  ExpectSuccess();
  EXPECT_THAT(coordinators_, ElementsAre("", "here:0", "here:0", "here:0"));
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(JobRunnerTest, CallsBackEveryTickOnceAllHaveStarted) {
  int ticks = 0;
  std::vector<pid_t> pids;
  JobRunner* running = nullptr;
  options_.on_tick = [&](const StatusReply& newest) {
    EXPECT_EQ(newest.phase(), StatusReply::TRAINING);
    pids = running->pids();
    if (++ticks == 3) WriteFile("done");
  };
  JobRunner job(options_);
  running = &job;
  EXPECT_TRUE(job.Wait(&signals_).status.ok());
  ASSERT_EQ(pids.size(), 3u);
  EXPECT_GT(pids[0], 0);
  EXPECT_NE(pids[1], pids[2]);
  EXPECT_GE(ticks, 3);
}

TEST_F(JobRunnerTest, FailsWithAWorkersErrorAndExitCode) {
  options_.workers = 1;
  workers_[0] = "echo 'error: data.txt: no such file' >&2; exit 2";
  const JobEnd result = Run();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(result.status.message(),
            absl::StrCat("worker-0 failed: data.txt: no such file (log: ",
                         folder_, "/worker-0.log)"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(JobRunnerTest, ContinuesWithoutAWorkerThatCannotTakePart) {
  workers_[1] = "echo 'error: data.txt: no such file' >&2; exit 2";
  options_.failure_timeout = absl::ZeroDuration();
  options_.on_tick = [this](const StatusReply&) {
    if (!messages_.empty()) WriteFile("done");
  };
  ExpectSuccess();
  EXPECT_THAT(
      messages_,
      ElementsAre(HasSubstr(
          "warning: worker-1 failed: data.txt: no such file; 1 worker")));
  EXPECT_THAT(events_,
              ElementsAre(HasSubstr(
                  "process_ended worker 1: worker-1 failed: data.txt")));
}

TEST_F(JobRunnerTest, WarnsOfAWorkerThatCannotTakePartAtTheEndAtTheLatest) {
  workers_[1] = "exit 2";
  options_.failure_timeout = absl::Seconds(20);
  options_.on_tick = [this](const StatusReply&) {
    EXPECT_THAT(messages_, IsEmpty());
    if (!events_.empty()) WriteFile("done");
  };
  ExpectSuccess();
  EXPECT_THAT(messages_, ElementsAre("warning: worker-1 exited with code 2; 1 "
                                     "worker continues"));
}

TEST_F(JobRunnerTest, DoesNotWarnBesideTheErrorThatNoWorkerCanTakePart) {
  servers_[0] = absl::StrCat(kUntilDone, "; echo 'error: no data' >&2; exit 2");
  workers_[0] = "exit 2";
  workers_[1] = kForever;
  options_.failure_timeout = absl::Seconds(20);
  options_.on_tick = [this](const StatusReply&) {
    if (!events_.empty()) WriteFile("done");
  };
  ExpectFailure("server-0 failed: no data (log: ", 2);
  EXPECT_THAT(messages_, IsEmpty());
}

TEST_F(JobRunnerTest, WarnsOfAWorkerThatCannotTakePartBeforeAnotherError) {
  workers_[0] = "exit 2";
  workers_[1] = absl::StrCat(kUntilDone, "; kill -KILL $$");
  servers_[0] = kForever;
  options_.failure_timeout = absl::Milliseconds(100);
  options_.on_tick = [this](const StatusReply&) {
    if (!events_.empty()) WriteFile("done");
  };
  ExpectFailure("no worker is left: worker-1 was killed by SIGKILL");
  EXPECT_THAT(messages_, ElementsAre("warning: worker-0 exited with code 2; 1 "
                                     "worker continues"));
}

TEST_F(JobRunnerTest, FailsIfTooFewWorkersCanTakePart) {
  options_.fewest_workers = 2;
  workers_[1] = "echo 'error: data.txt: no such file' >&2; exit 2";
  ExpectFailure(
      "only 1 of at least 2 workers are left: worker-1 "
      "failed: data.txt: no such file (log: ",
      2);
}

TEST_F(JobRunnerTest, TakesTheCoordinatorsWordForWhoFailedFirst) {
  servers_[0] =
      UntilEnded("1") + "echo 'error: worker 0 failed: no data' >&2; exit 2";
  workers_[0] = kForever;
  workers_[1] = WritePid("1") + "echo 'error: too late' >&2; exit 1";
  asked_ = absl::InfiniteFuture();
  options_.failure_timeout = absl::Seconds(20);
  ExpectFailure("server-0 failed: worker 0 failed: no data (log: ", 2);
}

TEST_F(JobRunnerTest, OtherExitCodesBecomeOne) {
  workers_[0] = "exit 77";
  ExpectFailure("worker-0 exited with code 77 (log: ");
}

TEST_F(JobRunnerTest, GoesOnWithoutAWorkerThatWasKilled) {
  workers_[0] = "kill -KILL $$";
  options_.on_tick = [this](const StatusReply&) {
    if (!messages_.empty()) WriteFile("done");
  };
  ExpectSuccess();
  EXPECT_THAT(
      messages_,
      ElementsAre(HasSubstr("warning: worker-0 was killed by SIGKILL")));
  EXPECT_THAT(events_,
              ElementsAre(HasSubstr("process_ended worker 0: worker-0 was ")));
}

TEST_F(JobRunnerTest, PassesEachWarningOnOnceWithTheNameOfItsProcess) {
  // The second one follows when the first one's is out.
  options_.on_message = [this](const std::string& text) {
    messages_.push_back(text);
    if (absl::StrContains(text, "slow disk")) {
      EXPECT_EQ(system(absl::StrCat("touch ", folder_, "/said").c_str()), 0);
    }
  };
  workers_[0] =
      "echo slow disk >&4; while [ ! -e $DIR/done ]; do sleep 0.01; "
      "done";
  workers_[1] =
      "while [ ! -e $DIR/said ]; do sleep 0.01; done; echo slow disk >&4; "
      "echo little memory >&4; echo not for persons >&2; touch $DIR/done";
  ExpectSuccess();
  EXPECT_THAT(messages_, ElementsAre("warning: worker-0: slow disk",
                                     "warning: worker-1: little memory"));
}

TEST_F(JobRunnerTest, PassesOnWhatAProcessWarnsOfWhileItIsStopped) {
  servers_[0] =
      "trap 'echo no checkpoint >&4; exit 75' TERM; touch $DIR/trapped; while "
      ":; do sleep 0.01; done";
  InterruptWhenTrapped();
  EXPECT_EQ(Run().exit_code, 130);
  EXPECT_THAT(messages_, ElementsAre("warning: server-0: no checkpoint"));
}

TEST_F(JobRunnerTest, PassesNoMoreWarningsOnAfterAFailure) {
  servers_[0] = "echo first >&4; echo 'error: no data' >&2; exit 1";
  workers_[0] = workers_[1] =
      "trap 'echo nobody is left >&4; exit 1' TERM; while :; do sleep 0.01; "
      "done";
  ExpectFailure("server-0 failed: no data");
  EXPECT_THAT(messages_, ElementsAre("warning: server-0: first"));
}

TEST_F(JobRunnerTest, SaysThatThereAreMoreWarningsThanAnyoneReads) {
  workers_[0] =
      "for i in $(seq 200); do echo warning $i >&4; done; touch $DIR/done";
  ExpectSuccess();
  ASSERT_EQ(messages_.size(), 101u);
  EXPECT_EQ(messages_[99], "warning: worker-0: warning 100");
  EXPECT_EQ(messages_[100],
            absl::StrCat("warning: there are more than 100 different warnings; "
                         "the others are in the logs only, as in ",
                         folder_, "/worker-0.log"));
}

TEST_F(JobRunnerTest, RestartsAWorkerWhoseDeviceHasFailedAndSaysWhy) {
  options_.workers = 1;
  options_.max_restarts = 1;
  workers_[0] =
      "if [ -e $DIR/failed ]; then touch $DIR/done; exit 0; fi; touch "
      "$DIR/failed; echo 'error: ReluForward on cuda:0' >&2; exit 75";
  ExpectSuccess();
  EXPECT_THAT(messages_,
              ElementsAre("warning: worker-0 failed: ReluForward on cuda:0; "
                          "restarting it (restart 1 of 1)"));
  EXPECT_THAT(events_, ElementsAre("process_restarted worker 0: worker-0 "
                                   "failed: ReluForward on cuda:0; restarting "
                                   "it (restart 1 of 1)"));
}

TEST_F(JobRunnerTest, FailsWhenTheLastWorkerIsKilled) {
  workers_[0] = "kill -KILL $$";
  workers_[1] = "sleep 0.1; kill -SEGV $$";
  ExpectFailure("no worker is left: worker-");
}

TEST_F(JobRunnerTest, FailsWhenAServerIsKilled) {
  options_.servers = 2;
  servers_[1] = "kill -KILL $$";
  ExpectFailure("server-1 was killed by SIGKILL");
}

TEST_F(JobRunnerTest, NamesTheServerWhenItsEndTakesWorkersAlong) {
  // A server that was restarted is a newer process than the workers.
  options_.max_restarts = 1;
  servers_[0] = absl::StrCat(
      "if [ ! -e $DIR/killed ]; then "
      "  while [ ! -e $DIR/started ]; do sleep 0.01; done; "
      "  touch $DIR/killed; kill -KILL $$; fi; ",
      kUntilDone, "; kill -KILL $$");
  workers_[0] = workers_[1] =
      absl::StrCat(kUntilDone, "; echo 'error: lost the server' >&2; exit 1");
  JobRunner* running = nullptr;
  options_.on_tick = [&](const StatusReply&) {
    WriteFile(messages_.empty() ? "started" : "done");
    if (messages_.empty()) return;
    // The runner finds the exits of all at the same time.
    for (const pid_t pid : running->pids()) {
      siginfo_t exit;
      waitid(P_PID, pid, &exit, WEXITED | WNOWAIT);
    }
  };
  JobRunner job(options_);
  running = &job;
  EXPECT_THAT(job.Wait(&signals_).status,
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("server-0 was killed by SIGKILL")));
}

TEST_F(JobRunnerTest, AServerThatCannotListenIsNamed) {
  options_.server = [this](int, const std::string&) {
    return Shell("server-0", "echo 'error: cannot listen' >&2; exit 1");
  };
  ExpectFailure("server-0 failed: cannot listen (log: ");
}

TEST_F(JobRunnerTest, AServerThatNeverListensIsGivenUp) {
  options_.start_timeout = absl::Milliseconds(50);
  options_.server = [this](int, const std::string&) {
    return Shell("server-0", kForever);
  };
  const JobEnd result = Run();
  EXPECT_THAT(result.status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                      HasSubstr("server-0 ")));
}

TEST_F(JobRunnerTest, AProgramThatIsMissingIsNamed) {
  options_.worker = [this](int rank, const std::string&) {
    ProcessSpec spec = Shell(absl::StrCat("worker-", rank), "");
    spec.arguments[0] = "/no/such/program";
    return spec;
  };
  ExpectFailure("cannot start worker-0: /no/such/program");
}

TEST_F(JobRunnerTest, FirstSignalAsksProcessesToEnd) {
  servers_[0] =
      "trap 'touch $DIR/asked; exit 0' TERM; touch $DIR/trapped; while :; do "
      "sleep 0.01; done";
  workers_ = {kForever, kForever};
  InterruptWhenTrapped();
  const JobEnd result = Run();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(result.status.message(), "stopped by SIGINT");
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_TRUE(Exists("asked"));
}

TEST_F(JobRunnerTest, SigtermHasItsOwnExitCode) {
  options_.on_tick = [sent = false](const StatusReply&) mutable {
    if (!std::exchange(sent, true)) kill(getpid(), SIGTERM);
  };
  // The server ends by it, and then the others.
  EXPECT_EQ(Run().exit_code, 75);
}

TEST_F(JobRunnerTest, ServerZeroGetsTheTimeToWriteACheckpoint) {
  servers_[0] =
      "trap 'sleep 0.1; [ ! -e $DIR/worker-gone ] && touch $DIR/in-order; "
      "exit 75' TERM; touch $DIR/trapped; while :; do sleep 0.01; done";
  workers_[0] = workers_[1] =
      "trap 'touch $DIR/worker-gone; exit 0' TERM; "
      "while :; do sleep 0.01; done";
  InterruptWhenTrapped();
  EXPECT_EQ(Run().exit_code, 130);
  EXPECT_TRUE(Exists("in-order"));
}

TEST_F(JobRunnerTest, StartsAgainWhatASignalEnded) {
  options_.servers = 2;
  options_.max_restarts = 3;
  servers_[0] = servers_[1] =
      "if [ $NAME = server-0 ]; then "
      "  if [ $COORDINATOR ]; then touch $DIR/again; else "
      "  while [ ! -e $DIR/second ]; do sleep 0.01; done; kill -9 $$; fi; "
      "fi; while [ ! -e $DIR/done ]; do sleep 0.01; done";
  workers_[0] =
      "if [ -e $DIR/second ]; then "
      "  while [ ! -e $DIR/again ]; do sleep 0.01; done; touch $DIR/done; "
      "else touch $DIR/second; kill -9 $$; fi";
  options_.workers = 1;
  const auto server = options_.server;
  options_.server = [server](int shard, const std::string& coordinator) {
    ProcessSpec spec = server(shard, coordinator);
    spec.environment.push_back("COORDINATOR=" + coordinator);
    spec.environment.push_back("NAME=" + spec.name);
    return spec;
  };
  ExpectSuccess();
  // Server 0, too, was told where it had listened.
  EXPECT_TRUE(Exists("again"));
  EXPECT_THAT(messages_, testing::UnorderedElementsAre(
                             HasSubstr("server-0 was killed by SIGKILL"),
                             HasSubstr("worker-0 was killed by SIGKILL")));
  ASSERT_FALSE(messages_.empty());
  EXPECT_THAT(messages_[0], HasSubstr("restarting it (restart 1 of 3)"));
}

TEST_F(JobRunnerTest, StartsAServerAgainThatWasKilledBeforeItListened) {
  options_.max_restarts = 1;
  options_.server = [this](int shard, const std::string& coordinator) {
    coordinators_.push_back(coordinator);
    return Shell(
        absl::StrCat("server-", shard),
        absl::StrCat("if [ ! -e $DIR/killed ]; then touch $DIR/killed; "
                     "kill -9 $$; fi; echo here:0 >&3; ",
                     kUntilDone));
  };
  workers_[1] = "touch $DIR/done";
  ExpectSuccess();
  EXPECT_THAT(coordinators_, ElementsAre("", "", "here:0", "here:0"));
  EXPECT_THAT(messages_, ElementsAre(HasSubstr("restart 1 of 1")));
}

TEST_F(JobRunnerTest, FailsWhenAServerIsKilledTooOften) {
  options_.max_restarts = 2;
  servers_[0] = "while [ ! -e $DIR/started ]; do sleep 0.01; done; kill -9 $$";
  options_.on_tick = [this](const StatusReply&) { WriteFile("started"); };
  const JobEnd result = Run();
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(messages_.size(), 2u);
  EXPECT_THAT(std::string(result.status.message()),
              HasSubstr("server-0 was killed by SIGKILL"));
}

TEST_F(JobRunnerTest, SecondSignalEndsEverythingAtOnce) {
  servers_[0] =
      "trap '' TERM INT; touch $DIR/trapped; while :; do sleep 0.01; done";
  options_.on_tick = [this, sent = 0](const StatusReply&) mutable {
    if (sent == 2 || !Exists("trapped")) return;
    kill(getpid(), ++sent == 1 ? SIGINT : SIGTERM);
  };
  const absl::Time begin = absl::Now();
  const JobEnd result = Run();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_LT(absl::Now() - begin, options_.stop_timeout);
}

TEST_F(JobRunnerTest, ProcessesThatDoNotListenAreKilledAfterAWhile) {
  options_.stop_timeout = options_.drain_timeout = absl::Milliseconds(100);
  servers_[0] = "trap '' TERM INT; while :; do sleep 0.01; done";
  workers_ = {servers_[0], servers_[0]};
  options_.on_tick = [sent = false](const StatusReply&) mutable {
    if (!std::exchange(sent, true)) kill(getpid(), SIGINT);
  };
  EXPECT_EQ(Run().exit_code, 130);
}

TEST_F(JobRunnerTest, APauseEndsWithTheExitOfServerZero) {
  servers_[0] =
      "trap 'touch $DIR/saved; exit 75' TERM; touch $DIR/trapped; while :; do "
      "sleep 0.01; done";
  workers_ = {kForever, kForever};
  JobRunner job(options_);
  RunUntilTrapped(&job);
  job.Pause();
  while (job.Advance()) signals_.Wait(job.Patience());
  EXPECT_TRUE(job.end().paused);
  EXPECT_EQ(job.end().status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(job.end().exit_code, 75);
  EXPECT_EQ(job.end().signal, 0);
  EXPECT_TRUE(Exists("saved"));
}

TEST_F(JobRunnerTest, AJobWhoseServerDiesInsteadIsNotPaused) {
  servers_[0] =
      "trap 'kill -KILL $$' TERM; touch $DIR/trapped; while :; do "
      "sleep 0.01; done";
  InterruptWhenTrapped();
  EXPECT_FALSE(Run().paused);
}

TEST_F(JobRunnerTest, OneThreadRunsSeveralJobs) {
  workers_ = {kForever, kForever};
  servers_[0] = "touch $DIR/trapped; exec sleep 100";
  JobRunner stopped(options_);
  stopped.Start();
  servers_[0] = kUntilDone;
  JobRunner other(options_);
  other.Start();
  bool told = false;
  while (stopped.Advance() | other.Advance()) {
    const bool ready = Exists("trapped");
    if (ready && !std::exchange(told, true)) {
      stopped.Stop();
      WriteFile("done");
    }
    signals_.Wait(std::min(stopped.Patience(), other.Patience()));
  }
  EXPECT_EQ(stopped.end().status.code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(stopped.end().paused);
  EXPECT_TRUE(other.end().status.ok()) << other.end().status;
}

}  // namespace
}  // namespace tributary
