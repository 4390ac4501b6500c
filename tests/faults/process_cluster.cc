#include "tests/faults/process_cluster.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(5);
// Time for other processes to end after the coordinator.
constexpr absl::Duration kFarewell = absl::Seconds(1);
// More starts than this mean that a process cannot run at all.
constexpr int kMostStarts = 200;

std::vector<std::string> Lines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// Returns whether the coordinator has ended with success.
bool JobDone(const std::set<std::string>& done) {
  return done.count("server-0") > 0;
}

int NumberOf(const std::string& name) {
  int number = 0;
  (void)absl::SimpleAtoi(name.substr(name.find('-') + 1), &number);
  return number;
}

}  // namespace

ProcessCluster::ProcessCluster(Options options)
    : options_(std::move(options)) {}

std::string ProcessCluster::Path(const std::string& name) const {
  return absl::StrCat(options_.folder, "/", name);
}

ProcessSpec ProcessCluster::Spec(const std::string& name) {
  const int start = starts_[name]++;
  ProcessSpec spec;
  spec.name = name;
  spec.log_path = Path(name + ".log");
  spec.append = start > 0;
  const char* const path = getenv("PATH");
  spec.environment = {
      absl::StrCat("PATH=", path == nullptr ? "/usr/bin:/bin" : path),
      "TRIBUTARY_LEDGER=" + Path("ledger"),
      "TRIBUTARY_SAMPLE_LEDGER=" + Path("sample_ledger"),
      "TRIBUTARY_FAILPOINT_LOG=" + Path("failpoints")};
  const auto environment = options_.environment.find(name);
  if (environment != options_.environment.end()) {
    spec.environment.insert(spec.environment.end(), environment->second.begin(),
                            environment->second.end());
  }
  const auto& failpoints =
      start == 0 ? options_.failpoints : options_.failpoints_again;
  const auto found = failpoints.find(name);
  if (start < 2 && found != failpoints.end()) {
    spec.environment.push_back("TRIBUTARY_FAILPOINTS=" + found->second);
  }
  spec.arguments = {options_.program};
  const auto add = [&spec](const std::vector<std::string>& more) {
    spec.arguments.insert(spec.arguments.end(), more.begin(), more.end());
  };
  const auto more = options_.arguments.find(name);
  const std::string told = options_.route && name != "server-0"
                               ? options_.route(name, coordinator_)
                               : coordinator_;
  if (absl::StartsWith(name, "worker")) {
    add({"worker", "--coordinator", told, "--rank",
         absl::StrCat(NumberOf(name)), "--threads",
         absl::StrCat(options_.worker_threads)});
    if (more != options_.arguments.end()) add(more->second);
    return spec;
  }
  add({"server", options_.job, "--servers", absl::StrCat(options_.servers),
       "--shard", absl::StrCat(NumberOf(name)), "--threads", "1", "--output",
       Path("run"), "--ready-fd", absl::StrCat(kReadyFd), "--lease", "2"});
  if (name == "server-0") {
    add({"--workers", absl::StrCat(options_.workers), "--listen",
         coordinator_.empty() ? "127.0.0.1:0" : coordinator_});
    if (start > 0) add({"--resume", "auto"});
    for (const std::string& set : options_.sets) add({"--set", set});
  } else {
    add({"--coordinator", told});
  }
  if (more != options_.arguments.end()) add(more->second);
  return spec;
}

absl::Status ProcessCluster::Start(const std::string& name) {
  if (starts_[name] >= kMostStarts) {
    return absl::ResourceExhaustedError(absl::StrCat(
        name, " ends again and again: ", LastErrorIn(Path(name + ".log"))));
  }
  const ProcessSpec spec = Spec(name);
  TRIBUTARY_ASSIGN_OR_RETURN(const int process, supervisor_.Start(spec));
  newest_[name] = process;
  name_of_.push_back(name);
  return absl::OkStatus();
}

absl::Status ProcessCluster::Run(
    const std::function<void(ProcessCluster*)>& look) {
  const absl::Time deadline = absl::Now() + options_.timeout;
  TRIBUTARY_RETURN_IF_ERROR(Start("server-0"));
  bool started = false;
  std::set<std::string> done;
  absl::Time end = absl::InfiniteFuture();
  bool asked_to_end = false;
  const size_t all = options_.servers + options_.workers;
  while (done.size() < all) {
    if (absl::Now() > deadline) {
      supervisor_.SignalAll(SIGCONT);
      return absl::DeadlineExceededError(absl::StrCat(
          "not done within ", absl::FormatDuration(options_.timeout),
          ": at step ", step()));
    }
    for (const ProcessExit& exit : supervisor_.Reap()) {
      const std::string& name = name_of_[exit.process];
      if (exit.succeeded() && started) {
        done.insert(name);
        continue;
      }
      if (WIFSIGNALED(exit.wait_status)) ++killed_;
      // A cluster manager restarts a process after any exit code but 2.
      if (WIFEXITED(exit.wait_status) &&
          (WEXITSTATUS(exit.wait_status) == 2 ||
           (options_.ends_with_job && name == "server-0"))) {
        return absl::InternalError(absl::StrCat(
            name, ": ", LastErrorIn(supervisor_.spec(exit.process).log_path)));
      }
      if (fault_ == absl::InfiniteFuture()) {
        fault_ = absl::Now();
        step_at_fault_ = step();
      }
      if (JobDone(done)) {
        done.insert(name);
        continue;
      }
      ++restarts_;
      TRIBUTARY_RETURN_IF_ERROR(Start(name));
    }
    // A process that was restarted too late looks for a job that has ended.
    if (JobDone(done) && !asked_to_end) {
      if (end == absl::InfiniteFuture()) end = absl::Now() + kFarewell;
      if (absl::Now() > end) {
        asked_to_end = true;
        supervisor_.SignalAll(SIGTERM);
      }
    }
    if (!started) {
      const auto address = supervisor_.ReadyText(newest_["server-0"]);
      if (address.has_value()) {
        started = true;
        coordinator_ = *address;
        for (int shard = 1; shard < options_.servers; ++shard) {
          TRIBUTARY_RETURN_IF_ERROR(Start(absl::StrCat("server-", shard)));
        }
        for (int rank = 0; rank < options_.workers; ++rank) {
          TRIBUTARY_RETURN_IF_ERROR(Start(absl::StrCat("worker-", rank)));
        }
      }
    } else {
      Watch();
      if (look) look(this);
    }
    absl::SleepFor(kLook);
  }
  return absl::OkStatus();
}

void ProcessCluster::Watch() {
  if (recovery_.has_value()) return;
  if (fault_ == absl::InfiniteFuture()) {
    if (actions() == 0) return;
    fault_ = absl::Now();
    step_at_fault_ = step();
  } else if (step() > step_at_fault_) {
    recovery_ = absl::Now() - fault_;
  }
}

void ProcessCluster::Signal(const std::string& name, int signal) {
  const auto found = newest_.find(name);
  if (found != newest_.end()) supervisor_.Signal(found->second, signal);
}

std::vector<std::string> ProcessCluster::names() const {
  std::vector<std::string> names;
  for (const auto& [name, process] : newest_) names.push_back(name);
  return names;
}

int64_t ProcessCluster::step() const {
  std::ifstream file(Path("run/metrics.jsonl"), std::ios::ate);
  if (!file) return 0;
  const int64_t size = file.tellg();
  file.seekg(std::max<int64_t>(0, size - 4096));
  const std::string tail{std::istreambuf_iterator<char>(file), {}};
  int64_t step = 0;
  for (absl::string_view line : absl::StrSplit(tail, '\n')) {
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr,
                                            /*allow_exceptions=*/false);
    if (json.is_object()) step = std::max(step, json.value("step", int64_t{0}));
  }
  return step;
}

std::string ProcessCluster::weights_sha256() const {
  std::ifstream file(Path("run/summary.json"));
  const auto json = nlohmann::json::parse(file, nullptr, false);
  return json.is_object() ? json.value("weights_sha256", std::string())
                          : std::string();
}

int ProcessCluster::actions() const {
  return static_cast<int>(Lines(Path("failpoints")).size());
}

absl::StatusOr<ProcessCluster::Ledger> ProcessCluster::ReadLedger() const {
  Ledger ledger;
  for (const std::string& line : Lines(Path("ledger"))) {
    std::istringstream words(line);
    int64_t attempt = 0, step = 0, sample_count = 0;
    int chunk = 0;
    words >> attempt >> chunk >> step >> sample_count;
    if (!words) return absl::InternalError("bad line in the ledger: " + line);
    ledger.applied[chunk][attempt].push_back(step);
    ledger.sample_counts[step].insert(sample_count);
  }
  if (ledger.applied.empty()) {
    return absl::DataLossError("the ledger is empty");
  }
  return ledger;
}

int64_t ProcessCluster::StepsAgain() const {
  const absl::StatusOr<Ledger> ledger = ReadLedger();
  if (!ledger.ok()) return 0;
  std::set<int64_t> attempts;
  for (const auto& [chunk, by_attempt] : ledger->applied) {
    for (const auto& [attempt, steps] : by_attempt) attempts.insert(attempt);
  }
  int64_t again = 0;
  int64_t given_out = 0;  // Number of published steps.
  for (const int64_t attempt : attempts) {
    int64_t first = INT64_MAX;
    int64_t last = 0;
    for (const auto& [chunk, by_attempt] : ledger->applied) {
      const auto found = by_attempt.find(attempt);
      if (found == by_attempt.end()) continue;
      first = std::min(first, found->second.front());
      last = std::max(last, found->second.back());
    }
    again += std::max<int64_t>(0, given_out - first);
    // The gradients of a step depend on the results of all steps before it.
    given_out = std::max(given_out, last);
  }
  return again;
}

absl::Status ProcessCluster::CheckSamples(const SampleLedgerJob& job) const {
  return CheckSampleLedger(Path("sample_ledger"), job);
}

absl::Status ProcessCluster::CheckLedger(int64_t steps, bool ordered) const {
  TRIBUTARY_ASSIGN_OR_RETURN(Ledger ledger, ReadLedger());
  auto& [applied, sample_counts] = ledger;
  for (const auto& [step, seen] : sample_counts) {
    if (seen.size() != 1) {
      return absl::DataLossError(
          absl::StrCat("step ", step, " was made of different samples"));
    }
  }
  for (auto& [chunk, attempts] : applied) {
    int64_t reached = 0;  // All steps below were applied in some attempt.
    for (auto& [attempt, done] : attempts) {
      if (!ordered) std::sort(done.begin(), done.end());
      for (size_t i = 0; i < done.size(); ++i) {
        const int64_t expected = done[0] + static_cast<int64_t>(i);
        if (done[i] == expected) continue;
        return absl::DataLossError(absl::StrCat(
            "chunk ", chunk, ", attempt ", attempt, ": step ", done[i],
            done[i] < expected ? " was applied twice" : " comes too early"));
      }
      if (done[0] > reached) {
        return absl::DataLossError(
            absl::StrCat("chunk ", chunk, ", attempt ", attempt, ": steps ",
                         reached, " to ", done[0] - 1, " are lost"));
      }
      reached = std::max(reached, done.back() + 1);
    }
    if (attempts.rbegin()->second.back() != steps - 1) {
      return absl::DataLossError(absl::StrCat(
          "chunk ", chunk, " ends at step ", attempts.rbegin()->second.back()));
    }
  }
  return absl::OkStatus();
}

}  // namespace tributary
