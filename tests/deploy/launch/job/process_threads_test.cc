#include "deploy/launch/job/process_threads.h"

#include <signal.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "deploy/flags/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

ProcessSpec Returning(const absl::Status& status) {
  ProcessSpec spec;
  spec.body = [status](const ThreadContext&) { return status; };
  return spec;
}

// Ends when it is told to.
ProcessSpec Waiting() {
  ProcessSpec spec;
  spec.body = [](const ThreadContext& context) {
    context.ready("here:1");
    context.shutdown->AwaitRequest(absl::InfiniteDuration());
    return absl::CancelledError("stopped by request");
  };
  return spec;
}

ProcessExit AwaitExit(ProcessThreads* threads) {
  while (true) {
    const std::vector<ProcessExit> exits = threads->Reap();
    if (!exits.empty()) return exits.front();
    threads->Wait(absl::Minutes(1));
  }
}

TEST(ProcessThreadsTest, ExitsHaveTheStatusAndTheCodeOfACommand) {
  const struct {
    absl::Status status;
    int code;
  } cases[] = {{absl::OkStatus(), kExitDone},
               {absl::CancelledError("stopped"), kExitPreempted},
               {absl::InvalidArgumentError("no data"), kExitUsage},
               {absl::UnavailableError("no server"), kExitFailed}};
  for (const auto& [status, code] : cases) {
    ProcessThreads threads;
    ASSERT_TRUE(threads.Start(Returning(status)).ok());
    const ProcessExit exit = AwaitExit(&threads);
    EXPECT_EQ(exit.status, status);
    EXPECT_TRUE(exit.exited_with(code)) << status;
    EXPECT_EQ(threads.status(0), status);
    EXPECT_FALSE(threads.running(0));
  }
}

TEST(ProcessThreadsTest, SignalsEndOneThread) {
  ProcessThreads threads;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(*threads.Start(Waiting()), i);
  while (!threads.ReadyText(1).has_value()) threads.Wait(absl::Minutes(1));
  EXPECT_EQ(*threads.ReadyText(1), "here:1");
  threads.Signal(1, SIGCONT);
  EXPECT_FALSE(threads.status(1).has_value());
  threads.Signal(1, SIGTERM);
  const ProcessExit exit = AwaitExit(&threads);
  EXPECT_EQ(exit.process, 1);
  EXPECT_TRUE(exit.stopped());
  EXPECT_TRUE(threads.running(0));
  EXPECT_EQ(threads.running_count(), 1);
  // The destructor ends the other.
}

TEST(ProcessThreadsTest, PassesWarningsOnAndWakesItsOwner) {
  std::atomic<int> wakes{0};
  ProcessThreads threads([&wakes] { ++wakes; });
  ProcessSpec spec;
  // With a log, the exit is like that of a process.
  spec.log_path = "/logs/worker-0.log";
  spec.body = [](const ThreadContext& context) {
    context.warn("the first");
    context.warn("the second");
    return absl::InvalidArgumentError("no data");
  };
  ASSERT_TRUE(threads.Start(spec).ok());
  const ProcessExit exit = AwaitExit(&threads);
  EXPECT_GE(wakes, 1);
  EXPECT_THAT(threads.TakeWarnings(0),
              testing::ElementsAre("the first", "the second"));
  EXPECT_THAT(threads.TakeWarnings(0), testing::IsEmpty());
  EXPECT_EQ(exit.status, absl::OkStatus());
  EXPECT_TRUE(exit.exited_with(kExitUsage));
  EXPECT_EQ(exit.reason, "failed: no data");
}

TEST(ProcessThreadsTest, WakeEndsTheNextWait) {
  ProcessThreads threads;
  threads.Wake();
  threads.Wait(absl::InfiniteDuration());
}

}  // namespace
}  // namespace tributary
