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
#include "common/base/sha256.h"
#include "common/job/job.h"
#include "common/os/file.h"
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

// Rows are admitted late, expire, and are removed for want of space. A disk has
// its rows in `folder`.
JobSpec TablesJob(const FaultCase& fault, const std::string& folder) {
  // 64 rows of each bucket.
  const auto disk = [&](int row_bytes) {
    return fault.disk ? absl::StrCat("memory_bytes: ", 64 * 12 * row_bytes,
                                     " disk { folder: '", folder, "' }")
                      : "";
  };
  return ParseJob(absl::StrCat(R"(
           model { dlrm { bottom: 16 top: 32 } }
           data { clicks { samples: 20000 evaluation_samples: 500
                           scale: 0.001 } }
           batch { global: 128 micro_batches: 8 }
           optimizer { sgd { learning_rate: 0.05 } }
           exchange { parameter_server { chunk_bytes: 4096 } }
           sparse { fixed_lag: )",
                               fault.fixed_lag, R"(
             table { name: "ids" dim: 8 buckets: 12
                     row_wise_adagrad { learning_rate: 0.05 }
                     admission { min_count: 2 } expiry { unused_steps: 7 } )",
                               disk(56), R"( }
             table { name: "others" dim: 8 buckets: 12 capacity: 2000
                     adam { learning_rate: 0.01 } )",
                               disk(112), R"( }
             feature { column: "C1" table: "ids" }
             feature { column: "C4" table: "others" }
             feature { column: "C7" table: "ids" }
             feature { column: "C10" table: "others" }
             feature { column: "C13" table: "others" }
           })"),
                  "tables")
      .value();
}

// Returns the digest of the rows of a finished run; empty if it has none.
std::string RowsDigest(const std::string& run) {
  const auto bytes = ReadFile(absl::StrCat(run, "/final/tables.rows"),
                              /*max_bytes=*/100 << 20);
  return bytes.ok() ? Sha256Hex(*bytes) : "";
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
  const bool tables = fault.model == "tables";
  JobSpec job =
      tables ? TablesJob(fault, folder) : TinyJob(fault.model, folder);
  if (fault.asynchronous) {
    job.mutable_exchange()
        ->mutable_parameter_server()
        ->mutable_consistency()
        ->mutable_asynchronous();
  }
  job.set_steps(kSteps);
  job.clear_epochs();
  job.set_seed(static_cast<uint64_t>(fault.seed));
  job.mutable_evaluation()->set_every_steps(20);
  job.mutable_checkpoint()->set_every_steps(10);
  job.mutable_output()->set_log_every_steps(1);
  if (fault.replicas) {
    job.mutable_recovery()->set_journal(true);
    // The only checkpoint is that of the end, with the rows.
    job.mutable_checkpoint()->set_every_steps(tables ? 10 * kSteps : 0);
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
    // second checkpoint, because each consists of two files of a server, or,
    // with those of rows, of three or four.
    options.failpoints[victim] =
        tables ? "S13=4*off->1*crash" : "S13=2*off->1*crash";
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
  if (result.status.ok())
    result.status = cluster.CheckLedger(kSteps, !fault.asynchronous);
  // The windows of a text differ from epoch to epoch.
  if (result.status.ok() && !job.data().has_text() && !tables) {
    result.status =
        cluster.CheckSamples({kSteps, kTinyJobSamples, job.batch().global(),
                              static_cast<int>(job.batch().micro_batches())});
  }
  result.weights_sha256 = cluster.weights_sha256();
  if (tables) result.rows_sha256 = RowsDigest(folder + "/run");
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
