// A job of two honest workers and one that does something wrong ends with the
// result of the honest ones, or with a line that names the culprit, within the
// time that the manual states. Prints a row of RESULTS.md for each case.
#include "tests/faults/misdeeds.h"

#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "common/os/logger.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

constexpr int kCulpritsRank = 2;
constexpr char kCulprit[] = "worker 2 (";
constexpr int64_t kLaterStep = 5;
// The held-out data of TinyJob's mlp has 37 samples.
constexpr int kPieceSamples = 4;
constexpr int64_t kPieces = 10;

// The timeouts of the servers, and the longest time for a case: the manual
// states the sum of those that apply, and a step must be unusually slow, too.
constexpr absl::Duration kStall = absl::Seconds(2);
constexpr absl::Duration kStart = absl::Seconds(1);
constexpr absl::Duration kMost = absl::Seconds(20);

const char* NameOf(JobKind kind) {
  switch (kind) {
    case JobKind::kSynchronous:
      return "synchronous";
    case JobKind::kTwoServers:
      return "two servers";
    case JobKind::kReplicas:
      return "replicas";
    case JobKind::kLocalSteps:
      return "local_steps";
    case JobKind::kStale:
      return "stale_synchronous";
    case JobKind::kAsynchronous:
      return "asynchronous";
    case JobKind::kAllReduce:
      return "all_reduce";
  }
  return "";
}

// Returns true if the result does not depend on timing.
bool HasBits(JobKind kind) {
  return kind != JobKind::kStale && kind != JobKind::kAsynchronous;
}

int ServersOf(JobKind kind) {
  return kind == JobKind::kTwoServers || kind == JobKind::kReplicas ? 2 : 1;
}

JobSpec JobOf(JobKind kind, const std::string& folder) {
  JobSpec job = TinyJob("mlp", folder);
  job.mutable_evaluation()->set_batch(kPieceSamples);
  if (kind == JobKind::kAllReduce) {
    job.mutable_exchange()->mutable_all_reduce()->set_chunk_bytes(4096);
    return job;
  }
  // Contributions are then messages, which the culprit changes.
  job.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  ConsistencySpec* const consistency =
      job.mutable_exchange()->mutable_parameter_server()->mutable_consistency();
  switch (kind) {
    case JobKind::kLocalSteps:
      consistency->mutable_local_steps()->set_inner_steps(2);
      break;
    case JobKind::kStale:
      consistency->mutable_stale_synchronous()->set_staleness(2);
      break;
    case JobKind::kAsynchronous:
      consistency->mutable_asynchronous();
      break;
    case JobKind::kReplicas:
      job.mutable_recovery()->set_journal(true);
      break;
    default:
      break;
  }
  return job;
}

class MisdeedsTest : public testing::Test {
 protected:
  // Returns the digest of the weights of an undisturbed run.
  const std::string& Undisturbed(JobKind kind) {
    std::string& digest = digests_[kind];
    if (digest.empty()) {
      LocalCluster cluster(JobOf(kind, folder_), ServersOf(kind),
                           /*expected_workers=*/2,
                           absl::StrCat(folder_, "/undisturbed"));
      cluster.StartWorker();
      cluster.StartWorker();
      EXPECT_EQ(cluster.Await(), absl::OkStatus());
      digest = cluster.Summary().value("weights_sha256", "none");
    }
    return digest;
  }

  // Returns the first warning of the servers that names the culprit.
  std::string LineAboutTheCulprit(const std::string& log) const {
    std::ifstream file(log);
    for (std::string line; std::getline(file, line);) {
      if (absl::StrContains(line, kCulprit)) return line;
    }
    return "";
  }

  // Returns the line without its time and level, and without the hosts and
  // processes of workers.
  static std::string WithoutPlaces(std::string line) {
    const std::string level_name = "warning : ";
    const size_t level = line.find(level_name);
    if (level != std::string::npos) line.erase(0, level + level_name.size());
    for (size_t at; (at = line.find(" (host ")) != std::string::npos;) {
      line.erase(at, line.find(')', at) + 1 - at);
    }
    return line;
  }

  void Try(const Misdeed& misdeed, JobKind kind, int64_t from) {
    SCOPED_TRACE(
        absl::StrCat(misdeed.name, ", ", NameOf(kind), ", from step ", from));
    const std::string digest = Undisturbed(kind);
    const std::string run = absl::StrCat(folder_, "/run", ++cases_);
    const std::string log_file = absl::StrCat(run, ".log");
    LogOptions log_options;
    log_options.standard_error = false;
    log_options.file = log_file;
    const std::unique_ptr<Logger> log = *Logger::Create(log_options);
    ClusterServers how;
    how.change = [&log](ServerOptions* options) {
      options->log = log.get();
      options->stall_timeout = kStall;
      options->start_timeout = kStart;
    };
    const absl::Time begin = absl::Now();
    LyingNetwork network(misdeed.lies(from));
    absl::Status status;
    std::string found;
    {
      LocalCluster cluster(JobOf(kind, folder_), ServersOf(kind),
                           /*expected_workers=*/3, run, {}, how);
      // The first that is ready is asked for the initial weights.
      const int culprit = cluster.StartWorkerOver(&network, kCulpritsRank);
      network.AwaitReady();
      const int first = cluster.StartWorkerOfRank(0);
      const int second = cluster.StartWorkerOfRank(1);
      (void)cluster.AwaitWorker(first);
      (void)cluster.AwaitWorker(second);
      cluster.KillWorker(culprit);
      status = cluster.Await();
      found = cluster.Summary().value("weights_sha256", "");
    }
    const absl::Duration time = absl::Now() - begin;
    std::string line = LineAboutTheCulprit(log_file);
    if (misdeed.end == ExpectedEnd::kFails) {
      EXPECT_FALSE(status.ok());
      EXPECT_TRUE(absl::StrContains(status.message(), kCulprit)) << status;
      line = std::string(status.message());
    } else {
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(!HasBits(kind) || found == digest) << found;
      EXPECT_TRUE(misdeed.end != ExpectedEnd::kNamed || !line.empty());
    }
    EXPECT_LT(time, kMost);
    line = WithoutPlaces(line);
    absl::PrintF("| %d | %s | %s | %d | %s | %.1f | %s |\n", cases_,
                 misdeed.name, NameOf(kind), from,
                 misdeed.end == ExpectedEnd::kFails ? "fails"
                 : HasBits(kind)                    ? "bits"
                                                    : "trains",
                 absl::ToDoubleSeconds(time), line);
  }

  const std::string folder_ = MakeTestFolder();
  std::map<JobKind, std::string> digests_;
  int cases_ = 0;
};

// Tries each misdeed in one kind of job or, with TRIBUTARY_ALL_MISDEEDS, in
// all.
TEST_F(MisdeedsTest, EndWithTheHonestResultOrNameTheCulprit) {
  const bool all = std::getenv("TRIBUTARY_ALL_MISDEEDS") != nullptr;
  size_t number = 0;
  for (const Misdeed& misdeed : AllMisdeeds(kPieces)) {
    std::vector<JobKind> kinds = misdeed.kinds;
    if (!all) kinds = {kinds[number++ % kinds.size()]};
    for (const JobKind kind : kinds) {
      Try(misdeed, kind, /*from=*/0);
      if (misdeed.later && kind == JobKind::kSynchronous) {
        Try(misdeed, kind, kLaterStep);
      }
    }
  }
  EXPECT_GE(cases_, all ? 60 : 20);
}

}  // namespace
}  // namespace tributary
