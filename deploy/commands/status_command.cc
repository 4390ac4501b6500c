#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/os/untrusted_folder.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/run_token.h"
#include "deploy/launch/job/status_poller.h"
#include "deploy/tools/runs/run_end.h"
#include "deploy/tools/runs/run_record.h"
#include "deploy/tools/status/run_address.h"
#include "deploy/tools/status/status_client.h"
#include "deploy/tools/status/status_screen.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

struct StatusFlags {
  std::string address;
  std::string run;  // The folder of a run, instead of an address.
  SecurityFlags security;
  double timeout_seconds = 5;
  bool ready = false;
  bool json = false;
  bool watch = false;
  double interval_seconds = 1;
  double give_up_seconds = 60;
};

// A coordinator that was finishing and has not answered for so long has ended.
constexpr absl::Duration kGone = absl::Seconds(3);

std::unique_ptr<CommandLine> MakeCommandLine(StatusFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "status", "[HOST[:PORT]|RUN]",
      "Shows the status of a job and of each of its processes: step, phase, "
      "time since its last heartbeat, and what it waits for. HOST is server 0, "
      "RUN the folder of a run on this machine, which may have ended; default: "
      "MASTER_ADDR and MASTER_PORT, else 127.0.0.1:29400.",
      std::vector<CommandLine::Example>{
          {"status", "Show the job of the server on this machine."},
          {"status runs/a --watch", "Show a run until it ends."},
          {"status node1:29400 --json", "Print JSON for scripts."},
          {"status --ready", "Exit with 0 while workers may join, else 1."}});
  line->SetOperand(/*required=*/false, &flags->address);
  line->AddSwitch("ready",
                  "Print nothing; exit with 0 if the server answers and its "
                  "job has not ended, else with 1. For health checks.",
                  &flags->ready);
  line->AddSwitch("json", "Print one JSON object.", &flags->json);
  line->AddSwitch(
      "watch",
      "Show the status again every --interval seconds, on a "
      "terminal in place, until the job has ended. The exit code is "
      "0 if the job is done or was stopped, 1 if it has failed or "
      "does not answer for a minute.",
      &flags->watch);
  line->AddNumber("interval",
                  "Seconds between two answers with --watch. Default 1.", 0.05,
                  3600, &flags->interval_seconds);
  AddSecurityFlags(line.get(), &flags->security);
  AddInsecureNetworkFlag(line.get(),
                         "Allow sending the token to another machine "
                         "unencrypted, without --tls-dir.",
                         &flags->security);
  line->AddNumber("timeout", "Seconds to wait for the response. Default 5.",
                  0.001, 3600, &flags->timeout_seconds);
  return line;
}

absl::Status FillFromEnvironment(const Environment& environment,
                                 StatusFlags* flags) {
  if (flags->watch && (flags->json || flags->ready)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--watch shows the status to people, and cannot be used "
        "with ",
        flags->json ? "--json" : "--ready", ": leave one of them out"));
  }
  if (flags->address.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const LauncherEnvironment launcher,
                               ReadLauncherEnvironment(environment));
    flags->address = launcher.Coordinator();
  } else if (std::error_code error;
             std::filesystem::is_directory(flags->address, error)) {
    flags->run = flags->address;
    return absl::OkStatus();
  } else if (!absl::StrContains(flags->address, ":")) {
    flags->address = JoinHostPort(flags->address, kDefaultPort);
  }
  return ParseHostPort(flags->address).status();
}

// Shows the status again and again until the job has ended or a signal arrives.
absl::Status Watch(const StatusFlags& flags, const Security& security) {
  SignalQueue signals;
  winsize size = {};
  if (isatty(STDOUT_FILENO) == 0 ||
      ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) {
    size = {};
  }
  StatusScreen screen(size.ws_col, size.ws_row);
  StatusPoller poller(flags.address, security);
  poller.Poll();
  while (signals.Wait(absl::Seconds(flags.interval_seconds)) == 0) {
    const StatusReply status = poller.latest();
    const absl::Duration age = absl::Now() - poller.latest_time();
    poller.Poll();
    if (status.phase() == StatusReply::PHASE_UNSPECIFIED) continue;
    const std::string text = screen.Show(status, age);
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    if (status.phase() == StatusReply::FAILED) return CheckReady(status);
    const bool ends = status.phase() == StatusReply::FINISHING;
    if (status.phase() == StatusReply::DONE ||
        status.phase() == StatusReply::DRAINED || (ends && age > kGone)) {
      return absl::OkStatus();
    }
    if (age > absl::Seconds(flags.give_up_seconds)) {
      return absl::UnavailableError(absl::StrCat(
          "no response from ", flags.address, " for ",
          absl::FormatDuration(absl::Seconds(flags.give_up_seconds)),
          "; the job has ended, or its server 0 is lost"));
    }
  }
  return absl::OkStatus();
}

// Shows how the job of a run has ended.
absl::Status ShowEnd(const StatusFlags& flags, const RunRecord& record) {
  if (flags.ready) {
    TRIBUTARY_RETURN_IF_ERROR(CheckEnd(record));
    return absl::FailedPreconditionError("the job has ended");
  }
  if (flags.json) {
    absl::PrintF("%s\n", EndJson(record).dump(
                             -1, ' ', /*ensure_ascii=*/false,
                             nlohmann::ordered_json::error_handler_t::replace));
    return absl::OkStatus();
  }
  const absl::Status end = CheckEnd(record);
  if (flags.watch && !end.ok()) return end;
  absl::PrintF("%s", FormatEnd(record));
  return absl::OkStatus();
}

// Asks the coordinator at `address`. Writes results to stdout; with --ready it
// writes errors only.
absl::Status Ask(const StatusFlags& flags, const Security& security) {
  TRIBUTARY_RETURN_IF_ERROR(
      CheckConnectTo(flags.address, flags.security, security));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const StatusReply status,
      AskStatus(flags.address, security, absl::Seconds(flags.timeout_seconds)));
  if (flags.ready) return CheckReady(status);
  if (flags.watch) return Watch(flags, security);
  if (flags.json) {
    absl::PrintF("%s\n", StatusJson(status, absl::Now()).dump());
  } else {
    absl::PrintF("%s%s\n", FormatStatus(status), FormatProcesses(status));
  }
  return absl::OkStatus();
}

absl::Status Run(StatusFlags flags) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const Security security,
      ReadSecurity(flags.security,
                   {Role::kAdmin, Role::kServer, Role::kWorker}));
  if (flags.run.empty()) return Ask(flags, security);
  RunRecord record{UntrustedFolder(flags.run)};
  const Security own = CredentialsOfRun(record.folder(), security);
  const absl::StatusOr<std::string> address =
      AddressOfRun(record.folder(), RunAddressRules{own});
  absl::Status asked = address.status();
  if (address.ok()) {
    flags.address = *address;
    asked = Ask(flags, own);
  }
  // A server that was killed leaves its address behind.
  if (!absl::IsNotFound(asked) && !absl::IsUnavailable(asked)) return asked;
  record.Update();
  if (!record.end().status.empty()) return ShowEnd(flags, record);
  return address.ok() ? asked : WithoutEnd(record, asked);
}

}  // namespace

int RunStatusCommand(const std::vector<std::string>& arguments,
                     const Environment& environment) {
  StatusFlags flags;
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
