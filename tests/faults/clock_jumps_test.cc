// Row 29: the machine's clock is set while a job runs. The protocol does not
// depend on it: no lease expires, no process waits for long, and the bits are
// those of an undisturbed run.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "tests/faults/process_cluster.h"
#include "tests/support/command_runner.h"
#include "tests/support/run_until_it_hits.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

// The steps after the last jump take longer than a lease of 2 s.
constexpr int64_t kSteps = 12000;
constexpr int64_t kStepsToJump = 1000;
constexpr int64_t kHour = 3600;

// Sets the clock of the processes; see jumping_clock.cc.
class ClockSetting {
 public:
  explicit ClockSetting(const std::string& path) {
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    EXPECT_EQ(ftruncate(file, sizeof(int64_t)), 0);
    offset_ = static_cast<std::atomic<int64_t>*>(mmap(
        nullptr, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
  }
  ~ClockSetting() { munmap(offset_, sizeof(int64_t)); }
  void Set(int64_t seconds) { *offset_ = seconds; }

 private:
  std::atomic<int64_t>* offset_ = nullptr;
};

struct Facts {
  absl::Status status;
  std::string digest;
  int restarts = 0;
  int64_t attempts = 0;
  std::string logs;
};

// Runs a job and sets the clock of `processes` to each of `jumps`, kStepsToJump
// steps apart.
Facts RunWithJumps(const std::vector<std::string>& processes,
                   const std::vector<int64_t>& jumps) {
  const std::string folder = MakeTestFolder();
  JobSpec job = TinyJob("mlp", folder);
  job.set_steps(kSteps);
  job.clear_epochs();
  // Without evaluations, workers report only heartbeats.
  job.mutable_evaluation()->set_every_steps(0);
  job.mutable_checkpoint()->set_every_steps(500);
  job.mutable_output()->set_log_every_steps(1);
  ProcessCluster::Options options;
  options.program = "tests/faults/tributary_with_failpoints";
  options.folder = folder;
  options.job = folder + "/job.textproto";
  // The steps take a minute with AddressSanitizer on a busy machine.
  options.timeout = absl::Minutes(3);
  std::ofstream(options.job) << PrintJob(job);
  const std::string path = folder + "/clock";
  ClockSetting setting(path);
  for (const std::string& process : processes) {
    options.environment[process] = {
        "TRIBUTARY_CLOCK=" + path,
        "LD_PRELOAD=tests/faults/libjumping_clock.so",
        // Otherwise AddressSanitizer ends a process whose first library is not
        // its own.
        "ASAN_OPTIONS=verify_asan_link_order=0"};
  }
  ProcessCluster cluster(options);
  size_t next = 0;
  Facts facts;
  facts.status = cluster.Run([&](ProcessCluster* running) {
    if (next < jumps.size() &&
        running->step() >= kStepsToJump * static_cast<int64_t>(next + 1)) {
      setting.Set(jumps[next++]);
    }
  });
  if (!facts.status.ok()) return facts;
  EXPECT_EQ(next, jumps.size());
  facts.status = cluster.CheckLedger(kSteps);
  facts.digest = cluster.weights_sha256();
  facts.restarts = cluster.restarts();
  std::ifstream(folder + "/run/attempt") >> facts.attempts;
  for (const char* const name : {"server-0", "server-1", "worker-0"}) {
    facts.logs += ReadWholeFile(folder + "/" + name + ".log");
  }
  return facts;
}

struct Whose {
  std::string name;
  std::vector<std::string> processes;
};

class ClockJumpsTest : public testing::TestWithParam<Whose> {};

TEST_P(ClockJumpsTest, NothingOfAJobGoesByTheWallClock) {
  static const std::string* const undisturbed =
      new std::string(RunWithJumps({}, {}).digest);
  ASSERT_EQ(undisturbed->size(), 64u);
  const auto run = [] {
    // An hour forward, then back to 1970.
    const Facts facts = RunWithJumps(
        GetParam().processes, {kHour, 100 - absl::ToUnixSeconds(absl::Now())});
    EXPECT_TRUE(facts.status.ok()) << facts.status;
    EXPECT_EQ(facts.digest, *undisturbed);
    if (GetParam().processes[0] == "server-0") {
      // Shows that the clock was set. The other processes log too little for
      // this.
      EXPECT_NE(facts.logs.find("1970-01-01T"), std::string::npos)
          << facts.logs;
    }
    // No process was removed.
    return facts.attempts == 1 && facts.restarts == 0 &&
           facts.logs.find("silent") == std::string::npos;
  };
  // The lease is short, so that the job outlasts it after the last jump. A
  // process that stands still for so long is removed, too.
  RunUntilItHits(run, /*most_runs=*/4);
}

INSTANTIATE_TEST_SUITE_P(Clocks, ClockJumpsTest,
                         testing::Values(Whose{"Coordinator", {"server-0"}},
                                         Whose{"Others",
                                               {"worker-0", "server-1"}}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tributary
