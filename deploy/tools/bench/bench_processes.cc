#include "deploy/tools/bench/bench_processes.h"

#include <signal.h>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/job/job_launch.h"

namespace tributary {
namespace {

absl::Status CheckExit(const Supervisor& supervisor, const ProcessExit& exit) {
  if (exit.succeeded()) return absl::OkStatus();
  const std::string reason =
      LastErrorIn(supervisor.spec(exit.process).log_path);
  return absl::AbortedError(absl::StrCat(
      "a process of the benchmark ", reason.empty()
                                         ? DescribeExit(exit.wait_status)
                                         : absl::StrCat("failed: ", reason)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BenchProcesses>> BenchProcesses::Create(
    SignalQueue* signals) {
  auto created = absl::WrapUnique(new BenchProcesses(signals));
  TRIBUTARY_ASSIGN_OR_RETURN(created->folder_, TemporaryDirectory::Create());
  return created;
}

absl::Status BenchProcesses::Start(const std::vector<std::string>& arguments) {
  const std::string name = absl::StrCat("process-", supervisor_.size());
  return supervisor_
      .Start(OwnProcess(name, arguments, absl::StrCat(folder(), "/", name)))
      .status();
}

absl::Status BenchProcesses::Await(const std::function<bool()>& done,
                                   absl::Duration interval,
                                   absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!done()) {
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError(
          "the processes of the benchmark did not answer");
    }
    const int signal = signals_->Wait(interval);
    if (signal != 0 && signal != SIGCHLD) return StoppedBy(signal);
    for (const ProcessExit& exit : supervisor_.Reap()) {
      TRIBUTARY_RETURN_IF_ERROR(CheckExit(supervisor_, exit));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<nlohmann::json> BenchProcesses::Printed(int process) const {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::string text,
      ReadFile(supervisor_.spec(process).log_path, kMaxSummaryBytes));
  nlohmann::json json = ParseJson(text);
  if (json.is_object()) return json;
  return absl::InternalError("a process of the benchmark wrote no JSON");
}

absl::StatusOr<std::vector<nlohmann::json>> RunBenchPrograms(
    const std::vector<std::vector<std::string>>& arguments,
    SignalQueue* signals) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<BenchProcesses> processes,
                             BenchProcesses::Create(signals));
  for (const std::vector<std::string>& of_process : arguments) {
    TRIBUTARY_RETURN_IF_ERROR(processes->Start(of_process));
  }
  TRIBUTARY_RETURN_IF_ERROR(processes->Await(
      [&] { return processes->supervisor().running_count() == 0; },
      /*interval=*/absl::Seconds(1), absl::InfiniteDuration()));
  std::vector<nlohmann::json> printed(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    TRIBUTARY_ASSIGN_OR_RETURN(printed[i],
                               processes->Printed(static_cast<int>(i)));
  }
  return printed;
}

}  // namespace tributary
