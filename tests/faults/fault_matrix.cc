#include "tests/faults/fault_matrix.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "tests/faults/process_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

constexpr int64_t kSteps = 60;

// Returns how often the process passes the failpoint before it acts, so that it
// acts during training. Most points are passed at least once per chunk.
int64_t Passes(const std::string& point, int64_t seed) {
  static const std::set<std::string> once = {"W1", "W2",  "W3",  "W5",
                                             "S1", "S17", "S18", "J4"};
  static const std::set<std::string> each_checkpoint = {"S11", "S12", "S13",
                                                        "S14", "S15", "S16"};
  static const std::set<std::string> each_step = {"W8", "W9", "W11"};
  if (once.count(point) > 0) return 0;
  if (point == "S2" || point == "S3") return (seed - 1) % 2;
  if (each_checkpoint.count(point) > 0) return seed % 3;
  if (point == "W12") return seed % 2;
  if (each_step.count(point) > 0) return 7 * seed;
  return 12 * seed + 3;
}

std::string VictimOf(const std::string& point, int64_t seed) {
  static const std::set<std::string> coordinators = {"S2",  "S11", "S14",
                                                     "S15", "S16", "S18"};
  if (point[0] == 'W') return absl::StrCat("worker-", seed % 2);
  if (coordinators.count(point) > 0) return "server-0";
  // The coordinator passes S1 before other processes exist.
  if (point == "S1" || point == "J4") return "server-1";
  return absl::StrCat("server-", seed % 2);
}

std::string MakeFolder(const std::string& parent) {
  std::string folder = parent + "/fault-XXXXXX";
  return mkdtemp(folder.data()) == nullptr ? std::string() : folder;
}

}  // namespace

std::vector<std::string> AllFailpoints() {
  std::vector<std::string> points;
  for (int i = 1; i <= 12; ++i) points.push_back(absl::StrCat("W", i));
  for (int i = 1; i <= 18; ++i) points.push_back(absl::StrCat("S", i));
  return points;
}

FaultResult RunFault(const FaultCase& fault, const std::string& parent) {
  const absl::Time begin = absl::Now();
  const std::string folder = MakeFolder(parent);
  JobSpec job = TinyJob(fault.model, folder);
  job.set_steps(kSteps);
  job.clear_epochs();
  job.set_seed(static_cast<uint64_t>(fault.seed));
  job.mutable_evaluation()->set_every_steps(20);
  job.mutable_checkpoint()->set_every_steps(10);
  job.mutable_output()->set_log_every_steps(1);
  if (fault.replicas) {
    job.mutable_recovery()->set_journal(true);
    job.mutable_checkpoint()->set_every_steps(0);
  }
  if (job.optimizer().has_sgd()) {
    job.mutable_optimizer()->mutable_sgd()->set_momentum(0.9);
  }
  ProcessCluster::Options options;
  options.program = fault.program;
  options.folder = folder;
  options.job = folder + "/job.textproto";
  options.servers = fault.servers;
  std::ofstream(options.job) << PrintJob(job);
  const std::string victim =
      fault.point.empty() ? "" : VictimOf(fault.point, fault.seed);
  const std::string setting =
      absl::StrCat(fault.point, "=", Passes(fault.point, fault.seed),
                   "*off->1*", fault.action);
  if (fault.point == "S17") {
    // A checkpoint is restored only after another crash: in the write of the
    // second checkpoint, because each consists of two files of a server.
    options.failpoints[victim] = "S13=2*off->1*crash";
    options.failpoints_again[victim] = setting;
  } else if (!fault.point.empty()) {
    options.failpoints[victim] = setting;
  }
  ProcessCluster cluster(options);
  bool asked = false;
  FaultResult result;
  result.status = cluster.Run([&](ProcessCluster* running) {
    if (fault.point == "S18" && !asked && running->step() >= 15) {
      asked = true;
      running->Signal(victim, SIGTERM);
    }
  });
  if (result.status.ok()) result.status = cluster.CheckLedger(kSteps);
  // The windows of a text differ from epoch to epoch.
  if (result.status.ok() && !job.data().has_text()) {
    result.status =
        cluster.CheckSamples({kSteps, kTinyJobSamples, job.batch().global(),
                              static_cast<int>(job.batch().micro_batches())});
  }
  result.weights_sha256 = cluster.weights_sha256();
  result.actions = cluster.actions();
  result.restarts = cluster.restarts();
  result.steps_again = cluster.StepsAgain();
  result.recovery = cluster.recovery();
  result.time = absl::Now() - begin;
  if (result.status.ok() && getenv("KEEP_FAULTS") == nullptr) {
    std::filesystem::remove_all(folder);
  } else if (!result.status.ok()) {
    result.status = absl::Status(
        result.status.code(),
        absl::StrCat(result.status.message(), " (see ", folder, ")"));
  }
  return result;
}

}  // namespace tributary
