// Trains a small transformer while random processes are killed, compares the
// bits with an undisturbed run, and prints the cost of the kills:
//   kill_loop PROGRAM FOLDER [--steps 20000] [--every 5] [--seldom 0]
//             [--servers 2] [--workers 4] [--seed 1] [--journal 0]
// `every`, and for another run `seldom`, are the seconds between two kills.
// Exits with 1 if the bits differ.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "tests/faults/process_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

struct RunFacts {
  std::string weights_sha256;
  absl::Duration time;
  int kills = 0;
  // Total time from each kill to the completion of a step that was not
  // completed before.
  absl::Duration lost;
};

// Returns the job's own time, from its first step to its end. `every` 0: no
// kills.
RunFacts Run(const std::string& program, const std::string& folder,
             std::map<std::string, int64_t> flags, int64_t every) {
  std::filesystem::create_directories(folder);
  JobSpec job = TinyJob("gpt", folder);
  job.set_steps(flags["steps"]);
  job.mutable_evaluation()->set_every_steps(0);
  job.mutable_checkpoint()->set_every_steps(200);
  job.mutable_recovery()->set_journal(flags["journal"] != 0);
  job.mutable_output()->set_log_every_steps(20);
  ProcessCluster::Options options;
  options.program = program;
  options.folder = folder;
  options.job = folder + "/job.textproto";
  options.servers = static_cast<int>(flags["servers"]);
  options.workers = static_cast<int>(flags["workers"]);
  options.timeout = absl::Hours(2);
  std::ofstream(options.job) << PrintJob(job);
  ProcessCluster cluster(options);
  std::mt19937 random(static_cast<unsigned>(flags["seed"]));
  RunFacts facts;
  absl::Time first = absl::InfiniteFuture();
  absl::Time next = absl::InfiniteFuture();
  absl::Time killed = absl::InfiniteFuture();
  int64_t step_at_kill = 0;
  const absl::Status status = cluster.Run([&](ProcessCluster* running) {
    const absl::Time now = absl::Now();
    if (first == absl::InfiniteFuture()) {
      if (running->step() == 0) return;
      first = now;
      if (every > 0) next = now + absl::Seconds(every);
    }
    if (killed != absl::InfiniteFuture() && running->step() > step_at_kill) {
      facts.lost += now - killed;
      killed = absl::InfiniteFuture();
    }
    if (now < next) return;
    next += absl::Seconds(every);
    const std::vector<std::string> names = running->names();
    const std::string victim = names[random() % names.size()];
    if (killed == absl::InfiniteFuture()) {
      killed = now;
      step_at_kill = running->step();
    }
    running->Signal(victim, SIGKILL);
    ++facts.kills;
  });
  facts.time = absl::Now() - first;
  const absl::Status ledger = cluster.CheckLedger(flags["steps"]);
  std::printf("%s: %s, ledger %s, %d kills, %.1f s, %lld steps again\n",
              every > 0 ? "killed" : "undisturbed", status.ToString().c_str(),
              ledger.ToString().c_str(), facts.kills,
              absl::ToDoubleSeconds(facts.time),
              static_cast<long long>(cluster.StepsAgain()));
  std::fflush(stdout);
  if (status.ok() && ledger.ok()) {
    facts.weights_sha256 = cluster.weights_sha256();
  }
  return facts;
}

int Main(int argc, char** argv) {
  std::map<std::string, int64_t> flags = {
      {"steps", 20000}, {"every", 5}, {"seldom", 0}, {"servers", 2},
      {"workers", 4},   {"seed", 1},  {"journal", 0}};
  bool good = argc >= 3 && argc % 2 == 1;
  for (int i = 3; good && i < argc; i += 2) {
    const auto flag = flags.find(std::string(argv[i]).substr(2));
    good = flag != flags.end() && absl::SimpleAtoi(argv[i + 1], &flag->second);
  }
  if (!good) {
    std::fprintf(
        stderr,
        "usage: kill_loop PROGRAM FOLDER [--steps N] [--every SECONDS] "
        "[--seldom SECONDS] [--servers N] [--workers N] [--seed N] "
        "[--journal 0|1]\n");
    return 2;
  }
  const std::string folder = argv[2];
  const RunFacts calm =
      Run(argv[1], folder + "/undisturbed", flags, /*every=*/0);
  bool all_equal = true;
  for (const int64_t every : {flags["every"], flags["seldom"]}) {
    if (every == 0) continue;
    const RunFacts killed =
        Run(argv[1], absl::StrCat(folder, "/killed-", every), flags, every);
    const bool equal = !calm.weights_sha256.empty() &&
                       calm.weights_sha256 == killed.weights_sha256;
    // The machine's speed varies between runs, so the time lost within a run is
    // the better measure.
    std::printf(
        "bits %s; at a kill every %d s %.1f s without progress, "
        "goodput %.1f %%; by the undisturbed run's time %.1f %%\n",
        equal ? "equal" : "OTHER", static_cast<int>(every),
        absl::ToDoubleSeconds(killed.lost),
        100 - 100 * absl::FDivDuration(killed.lost, killed.time),
        100 * absl::FDivDuration(calm.time, killed.time));
    std::fflush(stdout);
    all_equal = all_equal && equal;
  }
  return all_equal ? 0 : 1;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) { return tributary::Main(argc, argv); }
