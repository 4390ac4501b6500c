#include "deploy/commands/status_command.h"

#include <cstdint>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/security_flags.h"
#include "deploy/launcher/progress.h"
#include "deploy/status/status_client.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

struct Flags {
  std::string address;
  SecurityFlags security;
  double timeout_seconds = 5;
  bool ready = false;
  bool json = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(Flags* flags) {
  auto line = std::make_unique<CommandLine>(
      "status", "[HOST[:PORT]]",
      "Shows the status of a job and of each of its processes: step, phase, "
      "time since its last heartbeat, and what it waits for. HOST is server 0; "
      "default: MASTER_ADDR and MASTER_PORT, else 127.0.0.1:29400.",
      std::vector<CommandLine::Example>{
          {"status", "Show the job of the server on this machine."},
          {"status node1:29400 --json", "Print JSON for scripts."},
          {"status --ready", "Exit with 0 while workers may join, else 1."}});
  line->SetOperand(/*required=*/false, &flags->address);
  line->AddSwitch("ready",
                  "Print nothing; exit with 0 if the server answers and its "
                  "job has not ended, else with 1. For health checks.",
                  &flags->ready);
  line->AddSwitch("json", "Print one JSON object.", &flags->json);
  AddSecurityFlags(line.get(), &flags->security);
  AddInsecureNetworkFlag(line.get(),
                         "Allow sending the token to another machine "
                         "unencrypted, without --tls-dir.",
                         &flags->security);
  line->AddNumber("timeout", "Seconds to wait for the response. Default 5.",
                  0.001, 3600, &flags->timeout_seconds);
  return line;
}

absl::Status FillFromEnvironment(const Environment& environment, Flags* flags) {
  if (flags->address.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const LauncherEnvironment launcher,
                               ReadLauncherEnvironment(environment));
    flags->address = launcher.Coordinator();
  } else if (!absl::StrContains(flags->address, ":")) {
    flags->address = JoinHostPort(flags->address, kDefaultPort);
  }
  return ParseHostPort(flags->address).status();
}

// Writes results to stdout; with --ready it writes errors only.
absl::Status Run(const Flags& flags) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const Security security,
      ReadSecurity(flags.security,
                   {Role::kAdmin, Role::kServer, Role::kWorker}));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckConnectTo(flags.address, flags.security, security));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const StatusReply status,
      AskStatus(flags.address, security, absl::Seconds(flags.timeout_seconds)));
  if (flags.ready) return CheckReady(status);
  std::string text;
  if (flags.json) {
    text = StatusJson(status, absl::Now()).dump();
  } else {
    text = FormatProgress(status, 0);
    // While the job waits for workers, the progress line counts them itself.
    if (status.phase() != StatusReply::WAITING) {
      absl::StrAppendFormat(&text, " | workers %d | servers %d",
                            status.workers(), status.servers());
    }
  }
  while (absl::EndsWith(text, "\n")) text.pop_back();
  if (!flags.json && !status.model().empty()) {
    absl::StrAppend(&text, " | model ", status.model());
  }
  if (!flags.json) absl::StrAppend(&text, FormatProcesses(status));
  absl::PrintF("%s\n", text);
  return absl::OkStatus();
}

}  // namespace

std::string FormatProcesses(const StatusReply& status) {
  if (status.process().empty()) return "";
  std::string text;
  absl::StrAppendFormat(&text, "\n%-12s %10s  %-9s %8s  %-28s %s", "process",
                        "step", "phase", "silent", "waits for", "at");
  for (const ProcessStatus& process : status.process()) {
    absl::StrAppendFormat(
        &text, "\n%-12s %10s  %-9s %8s  %-28s %s",
        absl::StrCat(process.role(), " ", process.number()),
        process.step() < 0 ? "-" : absl::StrCat(process.step()),
        process.phase().empty() ? "starting" : process.phase(),
        process.silent_ms() < 0
            ? "-"
            : absl::StrFormat("%.1f s", 1e-3 * process.silent_ms()),
        process.waits_for().empty() ? "-" : process.waits_for(),
        process.place());
  }
  return text;
}

absl::Status CheckReady(const StatusReply& status) {
  switch (status.phase()) {
    case StatusReply::WAITING:
    case StatusReply::TRAINING:
    case StatusReply::EVALUATING:
    case StatusReply::RECOVERING:
      return absl::OkStatus();
    case StatusReply::FAILED:
      return absl::FailedPreconditionError(
          absl::StrCat("the job has failed: ", status.failure()));
    default:
      return absl::FailedPreconditionError("the job has ended");
  }
}

int RunStatusCommand(const std::vector<std::string>& arguments,
                     const Environment& environment) {
  Flags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status filled = FillFromEnvironment(environment, &flags);
  if (!filled.ok()) return ReportError(filled);
  const absl::Status status = Run(flags);
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace tributary
