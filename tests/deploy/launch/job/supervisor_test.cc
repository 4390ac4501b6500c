#include "deploy/launch/job/supervisor.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string LogPath(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "/", name, ".log");
}

ProcessSpec Shell(const std::string& name, const std::string& script) {
  ProcessSpec spec;
  spec.name = name;
  spec.arguments = {"/bin/sh", "-c", script};
  spec.environment = {"PATH=/usr/bin:/bin", "GREETING=hello"};
  spec.log_path = LogPath(name);
  return spec;
}

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Waits without burning time; every wait has an end.
void Pause() { poll(nullptr, 0, 5); }

ProcessExit WaitForExit(Supervisor* supervisor) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline) {
    const std::vector<ProcessExit> exits = supervisor->Reap();
    if (!exits.empty()) return exits[0];
    Pause();
  }
  ADD_FAILURE() << "no process ended";
  return ProcessExit();
}

std::string WaitForReady(Supervisor* supervisor, int process) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (absl::Now() < deadline) {
    const absl::optional<std::string> text = supervisor->ReadyText(process);
    if (text.has_value()) return *text;
    Pause();
  }
  ADD_FAILURE() << "no ready line";
  return std::string();
}

// Whether the process is gone, or a zombie that somebody else has to reap.
bool IsDead(pid_t pid) {
  const std::string stat = Contents(absl::StrCat("/proc/", pid, "/stat"));
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

bool DiesSoon(pid_t pid) {
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!IsDead(pid) && absl::Now() < deadline) Pause();
  return IsDead(pid);
}

TEST(SupervisorTest, ReportsExitCodesAndWritesLogs) {
  Supervisor supervisor;
  const absl::StatusOr<int> process = supervisor.Start(
      Shell("exits", "echo out $GREETING; echo err >&2; cat; exit 3"));
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ(supervisor.running_count(), 1);
  const ProcessExit exit = WaitForExit(&supervisor);
  EXPECT_EQ(exit.process, *process);
  EXPECT_FALSE(exit.succeeded());
  EXPECT_FALSE(exit.killed_by_signal());
  EXPECT_EQ(DescribeExit(exit.wait_status), "exited with code 3");
  EXPECT_EQ(Contents(LogPath("exits")), "out hello\nerr\n");
  EXPECT_EQ(supervisor.running_count(), 0);
}

TEST(SupervisorTest, ReportsSignals) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("killed", "kill -KILL $$")).ok());
  const ProcessExit exit = WaitForExit(&supervisor);
  EXPECT_TRUE(exit.killed_by_signal());
  EXPECT_THAT(DescribeExit(exit.wait_status), HasSubstr("SIGKILL"));
  EXPECT_EQ(DescribeExit(SIGSEGV), "was killed by SIGSEGV");
}

TEST(SupervisorTest, ReadsTheReadyLineWhenItIsWhole) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor
                  .Start(Shell("ready",
                               "printf 127.0.0.1: >&3; echo 4711 >&3; "
                               "exec 3>&-; exec sleep 100"))
                  .ok());
  EXPECT_EQ(WaitForReady(&supervisor, 0), "127.0.0.1:4711");
  EXPECT_EQ(supervisor.ReadyText(0), "127.0.0.1:4711");
}

TEST(SupervisorTest, HasNoReadyTextOfASilentProcess) {
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("silent", "printf half >&3")).ok());
  WaitForExit(&supervisor);
  EXPECT_FALSE(supervisor.ReadyText(0).has_value());
}

TEST(SupervisorTest, TakesWholeLinesOfWarningsOnce) {
  Supervisor supervisor;
  ASSERT_TRUE(
      supervisor
          .Start(Shell("warns", "echo one >&4; echo two >&4; printf half >&4"))
          .ok());
  WaitForExit(&supervisor);
  EXPECT_THAT(supervisor.TakeWarnings(0), ElementsAre("one", "two"));
  EXPECT_THAT(supervisor.TakeWarnings(0), ElementsAre());
}

// Nobody reads while it writes.
TEST(SupervisorTest, WarningsNeverBlockAProcess) {
  Supervisor supervisor;
  ASSERT_TRUE(
      supervisor
          .Start(Shell("floods",
                       "yes line 2>&- | head -c 300000 >&4 2>&-; exit 7"))
          .ok());
  EXPECT_EQ(DescribeExit(WaitForExit(&supervisor).wait_status),
            "exited with code 7");
  EXPECT_GT(supervisor.TakeWarnings(0).size(), 1000u);
}

TEST(SupervisorTest, NamesTheProgramThatCannotBeStarted) {
  Supervisor supervisor;
  ProcessSpec spec = Shell("worker-7", "");
  spec.arguments[0] = "/no/such/program";
  EXPECT_THAT(supervisor.Start(spec),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("cannot start worker-7: /no/such/program: ")));
  EXPECT_EQ(supervisor.running_count(), 0);
}

TEST(SupervisorTest, NamesTheLogThatCannotBeWritten) {
  Supervisor supervisor;
  ProcessSpec spec = Shell("worker-7", "");
  spec.log_path = "/no/such/folder/log";
  EXPECT_THAT(std::string(supervisor.Start(spec).status().message()),
              HasSubstr("/no/such/folder/log"));
}

// Without a descriptor left /dev/null, which comes first, cannot be opened.
TEST(SupervisorTest, NamesTheInputThatCannotBeOpened) {
  const int next = dup(0);
  ASSERT_GE(next, 0);
  close(next);
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit limit = before;
  limit.rlim_cur = next;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  Supervisor supervisor;
  const absl::Status status =
      supervisor.Start(Shell("worker-7", "exit 0")).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(),
            "cannot start worker-7: /dev/null: Too many open files");
}

TEST(SupervisorTest, SignalsReachTheWholeGroup) {
  Supervisor supervisor;
  ASSERT_TRUE(
      supervisor.Start(Shell("group", "sleep 100 & echo $! >&3; wait")).ok());
  int grandchild = 0;
  ASSERT_TRUE(absl::SimpleAtoi(WaitForReady(&supervisor, 0), &grandchild));
  supervisor.SignalAll(SIGTERM);
  EXPECT_TRUE(WaitForExit(&supervisor).killed_by_signal());
  EXPECT_TRUE(DiesSoon(grandchild));
}

TEST(SupervisorTest, ChildrenOfAnEndedProcessEndToo) {
  Supervisor supervisor;
  ASSERT_TRUE(
      supervisor.Start(Shell("leaves", "sleep 100 & echo $! >&3")).ok());
  int grandchild = 0;
  ASSERT_TRUE(absl::SimpleAtoi(WaitForReady(&supervisor, 0), &grandchild));
  EXPECT_TRUE(WaitForExit(&supervisor).succeeded());
  EXPECT_TRUE(DiesSoon(grandchild));
}

TEST(SupervisorTest, StartedProcessesTakeSignalsThatWeHaveBlocked) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  Supervisor supervisor;
  ASSERT_TRUE(supervisor.Start(Shell("term", "exec sleep 100")).ok());
  sigprocmask(SIG_SETMASK, &before, nullptr);
  supervisor.Signal(0, SIGTERM);
  EXPECT_EQ(DescribeExit(WaitForExit(&supervisor).wait_status),
            "was killed by SIGTERM");
}

TEST(SupervisorTest, DestructionEndsEverything) {
  pid_t pids[2];
  {
    Supervisor supervisor;
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(supervisor
                      .Start(Shell(absl::StrCat("stubborn-", i),
                                   "trap '' TERM INT; sleep 100"))
                      .ok());
      pids[i] = supervisor.pid(i);
    }
  }
  for (const pid_t pid : pids) EXPECT_TRUE(IsDead(pid));
}

// A process that supervises another one, and is killed: the kernel must end the
// other one.
TEST(SupervisorTest, NothingOutlivesASupervisorThatIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t launcher = fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    Supervisor supervisor;
    const bool started =
        supervisor.Start(Shell("orphan", "exec sleep 100")).ok();
    const pid_t child = started ? supervisor.pid(0) : -1;
    if (write(ends[1], &child, sizeof(child)) < 0) _exit(1);
    for (;;) pause();
  }
  pid_t child = -1;
  ASSERT_EQ(read(ends[0], &child, sizeof(child)),
            static_cast<ssize_t>(sizeof(child)));
  close(ends[0]);
  close(ends[1]);
  ASSERT_GT(child, 0);
  EXPECT_FALSE(IsDead(child));
  kill(launcher, SIGKILL);
  EXPECT_EQ(waitpid(launcher, nullptr, 0), launcher);
  EXPECT_TRUE(DiesSoon(child));
}

TEST(LastErrorTest, IsTheLastErrorLine) {
  const std::string path = LogPath("errors");
  std::ofstream(path) << "error: first\ninfo error: no\nerror: second\nmore\n";
  EXPECT_EQ(LastErrorIn(path), "second");
  EXPECT_EQ(LastErrorIn(path, 20), "second");
  EXPECT_EQ(LastErrorIn(path, 1000), "");
  std::ofstream(path, std::ios::app) << "error: of a process before\n";
  EXPECT_EQ(
      LastErrorIn(path, static_cast<int64_t>(std::filesystem::file_size(path))),
      "");
  std::ofstream(path) << "nothing here\n";
  EXPECT_EQ(LastErrorIn(path), "");
  EXPECT_EQ(LastErrorIn("/no/such/log"), "");
}

TEST(LastErrorTest, IsFoundAtTheEndOfALargeLog) {
  const std::string path = LogPath("large");
  std::ofstream(path) << std::string(1 << 20, 'x') << "\nerror: at the end\n";
  EXPECT_EQ(LastErrorIn(path), "at the end");
}

}  // namespace
}  // namespace tributary
