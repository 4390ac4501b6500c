#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/http/http_server.h"
#include "common/os/local_host.h"
#include "common/transport/security.h"
#include "deploy/commands/build_info.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/http_certificate.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/tools/dashboard/dashboard.h"
#include "deploy/tools/dashboard/run_list.h"
#include "deploy/tools/status/run_address.h"

namespace tributary {
namespace {

constexpr int kDefaultDashboardPort = 29480;
constexpr absl::Duration kFirstStatus = absl::Milliseconds(300);

struct DashboardFlags {
  std::vector<std::string> runs;
  std::vector<std::string> coordinators;
  std::string listen;
  SecurityFlags security;
};

absl::StatusOr<HttpServer::Options> ServerOptionsOf(const DashboardFlags& flags,
                                                    const Security& security) {
  HttpServer::Options options;
  options.port = kDefaultDashboardPort;
  if (!flags.listen.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const HostPort address,
                               ParseHostPort(flags.listen));
    options.host = address.host;
    options.port = address.port;
  }
  if (IsLoopback(options.host)) return options;
  if (security.Tokens().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen ", flags.listen,
        " would show the runs to everybody in the network: pass --token-file "
        "with the token that readers must give, and --tls-dir"));
  }
  options.certificate = HttpCertificateOf(security);
  if (!security.tls() && !flags.security.insecure_network) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", flags.listen,
                     " would receive the token unencrypted: pass --tls-dir, or "
                     "--insecure-network if the network is trusted"));
  }
  return options;
}

absl::Status Run(const DashboardFlags& flags) {
  SignalQueue signals;  // Before the threads that watch files and query jobs.
  TRIBUTARY_ASSIGN_OR_RETURN(
      const Security security,
      ReadSecurity(flags.security,
                   {Role::kAdmin, Role::kServer, Role::kWorker}));
  RunList runs(RunAddressRules{security});
  for (const std::string& path : flags.runs) {
    TRIBUTARY_RETURN_IF_ERROR(runs.AddPath(path));
  }
  for (const std::string& address : flags.coordinators) {
    TRIBUTARY_RETURN_IF_ERROR(ParseHostPort(address).status());
    TRIBUTARY_RETURN_IF_ERROR(
        CheckConnectTo(address, flags.security, security));
    runs.AddCoordinator(address);
  }
  if (runs.empty()) {
    return absl::InvalidArgumentError(
        "missing RUN; pass folders of runs, or --coordinator HOST:PORT");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const HttpServer::Options options,
                             ServerOptionsOf(flags, security));
  Dashboard::Options shown;
  shown.release = TRIBUTARY_VERSION;
  if (!IsLoopback(options.host)) {
    shown.tokens = [&security] { return security.Tokens(); };
  }
  // So that the first page already shows which jobs run.
  runs.AwaitStatuses(kFirstStatus);
  Dashboard dashboard(std::move(runs), std::move(shown));
  const absl::StatusOr<std::unique_ptr<HttpServer>> server =
      HttpServer::Start(options, [&dashboard](const HttpRequest& request) {
        return dashboard.Handle(request);
      });
  if (!server.ok()) {
    return absl::Status(server.status().code(),
                        absl::StrCat("--listen: ", server.status().message()));
  }
  std::printf("%s://%s\n", options.certificate ? "https" : "http",
              JoinHostPort(options.host, (*server)->port()).c_str());
  std::fflush(stdout);
  while (signals.Wait(absl::InfiniteDuration()) == 0) {
  }
  return absl::OkStatus();
}

}  // namespace

int RunDashboardCommand(const std::vector<std::string>& arguments,
                        const Environment& environment) {
  DashboardFlags flags;
  CommandLine line(
      "dashboard", "[RUN...]",
      "Serves a page that shows runs in a browser while they train and "
      "afterwards: curves, where the time goes, processes, logs and job files. "
      "RUN is the folder of a run or of a search (see 'tributary tune'), or a "
      "folder that contains such folders. Reads only; "
      "ends with Ctrl-C.",
      {{"dashboard runs", "Show all runs in the folder runs."},
       {"dashboard runs/search", "Show a search, and the runs of its trials."},
       {"dashboard runs/a runs/b", "Compare two runs."},
       {"dashboard --coordinator node0:29400", "Show a job on a cluster."}});
  line.SetOperands(&flags.runs);
  line.AddTexts("coordinator", "HOST:PORT",
                "Server 0 of a job whose folder is on another machine. May be "
                "repeated.",
                &flags.coordinators);
  line.AddText("listen", "HOST:PORT",
               "Address of the page. One that other machines reach needs "
               "--token-file, and --tls-dir or --insecure-network. Default "
               "127.0.0.1:29480.",
               &flags.listen);
  AddSecurityFlags(&line, &flags.security);
  AddInsecureNetworkFlag(&line,
                         "Allow sending the token unencrypted, without "
                         "--tls-dir.",
                         &flags.security);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status status = Run(flags);
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace tributary
