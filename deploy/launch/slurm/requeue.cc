#include "deploy/launch/slurm/requeue.h"

#include <signal.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/os/file.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/supervisor.h"

namespace tributary {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(10);
constexpr int64_t kMaxOutputBytes = 1 << 20;

// Returns the value of a field such as JobState.
absl::string_view FieldOf(absl::string_view facts, absl::string_view name) {
  for (const absl::string_view field : absl::StrSplit(facts, ' ')) {
    const size_t equals = field.find('=');
    if (field.substr(0, equals) == name && equals != field.npos) {
      return field.substr(equals + 1);
    }
  }
  return {};
}

// Runs scontrol with its output in the file `log`. Returns true if it succeeds.
bool RunScontrol(const std::vector<std::string>& arguments,
                 const std::string& log) {
  ProcessSpec spec;
  spec.name = "scontrol";
  spec.arguments = {"/usr/bin/env", "scontrol"};
  spec.arguments.insert(spec.arguments.end(), arguments.begin(),
                        arguments.end());
  spec.environment = ChildEnvironment();
  spec.log_path = log;
  Supervisor supervisor;
  if (!supervisor.Start(spec).ok()) return false;
  const absl::Time deadline = absl::Now() + kTimeout;
  while (absl::Now() < deadline) {
    const std::vector<ProcessExit> exits = supervisor.Reap();
    if (!exits.empty()) return exits.front().succeeded();
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

}  // namespace

bool MustRequeue(int signal, absl::string_view facts) {
  if (FieldOf(facts, "JobState") != "RUNNING") return false;
  if (signal == SIGUSR1 || signal == SIGUSR2) return true;
  const absl::string_view preempted = FieldOf(facts, "PreemptTime");
  return signal == SIGTERM && !preempted.empty() && preempted != "None" &&
         preempted != "N/A";
}

std::string RequeueStoppedJob(const Allocation& allocation, int signal,
                              const Environment& environment,
                              const std::string& log_folder) {
  // Slurm requeues only batch jobs.
  if (environment("ENVIRONMENT").value_or("") != "BATCH") return "";
  const std::string job = absl::StrCat(allocation.job_id);
  const std::string log = absl::StrCat(log_folder, "/scontrol.log");
  if (!RunScontrol({"--oneliner", "show", "job", job}, log)) {
    return absl::StrCat(
        "cannot ask Slurm whether to requeue the job (log: ", log, ")");
  }
  const absl::StatusOr<std::string> facts = ReadFile(log, kMaxOutputBytes);
  if (!facts.ok() || !MustRequeue(signal, *facts)) return "";
  if (RunScontrol({"requeue", job}, log)) return "requeued the job";
  return absl::StrCat(
      "Slurm does not requeue the job (log: ", log,
      "); submit jobs that are to be requeued with sbatch --requeue");
}

std::string RequeueStoppedJob(int signal, const Environment& environment,
                              const std::string& log_folder) {
  if (!InAllocation(environment)) return "";
  const absl::StatusOr<Allocation> allocation = ReadAllocation(environment);
  if (!allocation.ok()) return std::string(allocation.status().message());
  // Several jobs may share the folder.
  const std::string folder = absl::StrCat(log_folder, "/", allocation->job_id);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  return RequeueStoppedJob(*allocation, signal, environment, folder);
}

}  // namespace tributary
