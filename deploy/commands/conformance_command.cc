#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/os/temporary_directory.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/tools/conformance/scenarios.h"
#include "nlohmann/json.hpp"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

struct ConformanceFlags {
  std::string command;
  JobSource job;
  SecurityFlags security;
  std::string filter;
  double time_limit = 60;
  bool json = false;
  bool list = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(ConformanceFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "conformance", "",
      "Checks a worker in any language against the protocol: runs it with real "
      "servers in scenarios such as a lost server, and says what it did wrong. "
      "Without --job, the worker must implement the model mlp, and its results "
      "are compared with those of the built-in worker.",
      std::vector<CommandLine::Example>{
          {"conformance --worker-command 'python3 my_worker.py'",
           "Check a worker with every scenario."},
          {"conformance --worker-command ./my_worker --job JOB.textproto",
           "Check a worker that computes a model of its own."},
          {"conformance --worker-command ./my_worker --filter two",
           "Run only the scenarios whose names contain 'two'."},
          {"conformance --list", "List the scenarios."}});
  line->AddText("worker-command", "COMMAND",
                "Program of the worker and its arguments, with the shell's "
                "quoting; started for each worker of a scenario. It finds the "
                "address of server 0 in the variable "
                "TRIBUTARY_COORDINATOR.",
                &flags->command);
  line->AddText("job", "FILE",
                "A job of a few seconds with exchange.parameter_server, in the "
                "consistency mode and encoding to check. Default: a built-in "
                "job.",
                &flags->job.path);
  AddSetFlag(line.get(), "exchange.wire_dtype=FLOAT16", &flags->job.sets);
  AddSecurityFlags(line.get(), &flags->security);
  line->AddText("filter", "TEXT",
                "Run only the scenarios whose names contain TEXT.",
                &flags->filter);
  line->AddNumber("time-limit",
                  "Seconds that a scenario may take, after which the worker is "
                  "killed. Default 60.",
                  1, 86400, &flags->time_limit);
  line->AddSwitch("json", "Print one JSON object.", &flags->json);
  line->AddSwitch("list", "List the scenarios.", &flags->list);
  return line;
}

absl::StatusOr<std::vector<Scenario>> Select(const std::string& filter) {
  std::vector<Scenario> selected;
  for (Scenario& scenario : AllScenarios()) {
    if (absl::StrContains(scenario.name, filter)) {
      selected.push_back(std::move(scenario));
    }
  }
  if (!selected.empty()) return selected;
  return absl::InvalidArgumentError(
      absl::StrCat("--filter ", filter,
                   ": no scenario has this in its name; "
                   "--list lists them"));
}

absl::StatusOr<Subject> MakeSubject(const ConformanceFlags& flags,
                                    const TrainingSources& sources,
                                    const std::string& folder,
                                    SignalQueue* signals, int* stop_signal) {
  if (flags.command.empty()) {
    return absl::InvalidArgumentError(
        "--worker-command is missing: the command line of the worker, as in "
        "--worker-command 'python3 my_worker.py'");
  }
  Subject subject;
  subject.command = flags.command;
  JobSource source = flags.job;
  if (source.path.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(source.text, ConformanceJob(folder));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(subject.job, ReadJob(source));
  if (ResolveExchange(subject.job).workers_exchange_directly) {
    return absl::InvalidArgumentError(
        "the scenarios are for exchange.parameter_server, because workers of "
        "an all-reduce depend on Gloo; remove exchange.all_reduce");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(subject.security,
                             ReadSecurity(flags.security, {Role::kServer}));
  subject.token_file = flags.security.token_file;
  subject.is_built_in =
      !subject.job.model().has_external() && !subject.job.data().has_external();
  subject.sources = sources;
  subject.time_limit = absl::Seconds(flags.time_limit);
  subject.folder = folder;
  subject.signals = signals;
  subject.stop_signal = stop_signal;
  return subject;
}

// Runs the scenarios. Prints one line for each if `prints` is set.
absl::Status Run(const Subject& subject, const std::vector<Scenario>& scenarios,
                 bool prints, int* failed, nlohmann::ordered_json* results) {
  size_t width = 0;
  for (const Scenario& scenario : scenarios) {
    width = std::max(width, scenario.name.size());
  }
  for (const Scenario& scenario : scenarios) {
    if (scenario.applies && !scenario.applies(subject.job)) continue;
    const absl::Time begin = MonotonicNow();
    TRIBUTARY_ASSIGN_OR_RETURN(const std::optional<Fault> fault,
                               scenario.run(subject));
    const double seconds = absl::ToDoubleSeconds(MonotonicNow() - begin);
    if (fault.has_value()) ++*failed;
    nlohmann::ordered_json result = {{"name", scenario.name},
                                     {"passed", !fault.has_value()},
                                     {"seconds", seconds}};
    if (fault.has_value()) {
      result["what"] = fault->what;
      result["rule"] = fault->rule;
    }
    results->push_back(std::move(result));
    if (!prints) continue;
    std::printf(
        "%-*s  %s%s\n", static_cast<int>(width), scenario.name.c_str(),
        fault.has_value() ? "FAILED: " : "passed",
        fault.has_value()
            ? absl::StrCat(fault->what, "; the protocol: ", fault->rule).c_str()
            : "");
    std::fflush(stdout);
  }
  if (results->empty()) {
    return absl::InvalidArgumentError(
        "none of the selected scenarios is for this job");
  }
  return absl::OkStatus();
}

void PrintReport(const nlohmann::ordered_json& results, int failed) {
  const nlohmann::ordered_json report = {
      {"passed", static_cast<int>(results.size()) - failed},
      {"failed", failed},
      {"scenarios", results}};
  // What a worker has written need not be UTF-8.
  std::printf("%s\n",
              report
                  .dump(2, ' ', /*ensure_ascii=*/false,
                        nlohmann::ordered_json::error_handler_t::replace)
                  .c_str());
}

int List() {
  for (const Scenario& scenario : AllScenarios()) {
    std::printf("%-24s %s\n", scenario.name.c_str(), scenario.summary.c_str());
  }
  return kExitDone;
}

}  // namespace

int RunConformanceCommand(const std::vector<std::string>& arguments,
                          const Environment& environment,
                          const TrainingSources& sources) {
  ConformanceFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  if (flags.list) return List();
  const auto scenarios = Select(flags.filter);
  if (!scenarios.ok()) return ReportError(scenarios.status());
  SignalQueue signals(/*with_children=*/true);
  const auto folder = TemporaryDirectory::Create();
  if (!folder.ok()) return ReportError(folder.status(), kExitFailed);
  int stop_signal = 0;
  const auto subject =
      MakeSubject(flags, sources, (*folder)->path(), &signals, &stop_signal);
  int failed = 0;
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  absl::Status status = subject.status();
  if (status.ok()) {
    status = Run(*subject, *scenarios, !flags.json, &failed, &results);
  }
  if (flags.json && status.ok()) PrintReport(results, failed);
  if (status.ok() && failed > 0) {
    (*folder)->Keep();
    std::fprintf(stderr, "logs are in %s\n", (*folder)->path().c_str());
  }
  if (stop_signal != 0) {
    return ReportError(status, ExitCodeOfStop(stop_signal));
  }
  if (!status.ok()) return ReportError(status);
  return failed > 0 ? kExitFailed : kExitDone;
}

}  // namespace tributary
