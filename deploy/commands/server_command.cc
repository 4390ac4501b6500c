#include "deploy/commands/server_command.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/limits.h"
#include "common/base/shutdown.h"
#include "common/base/status_macros.h"
#include "common/metrics/metrics_exporter.h"
#include "common/metrics/metrics_registry.h"
#include "common/os/local_host.h"
#include "common/os/logger.h"
#include "common/os/process.h"
#include "common/transport/connection_acceptor.h"
#include "common/transport/health_endpoint.h"
#include "common/update/block_pass.h"
#include "common/update/cuda/cuda_passes.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/health_flags.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/metrics_flags.h"
#include "deploy/flags/output_directory.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/flags/worker_count.h"
#include "deploy/launch/job/progress_console.h"
#include "deploy/launch/kubeflow/progress_reporter.h"
#include "server/process/server_process.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

constexpr int64_t kMostWorkers = 65536;

struct ServerFlags {
  JobSource source;
  std::string listen;
  std::string coordinator;
  std::string advertise;
  std::string output;
  LogFlags log;
  SecurityFlags security;
  int64_t shard = 0;
  int64_t servers = 1;
  std::string workers;
  WorkerCount count{1, 1};  // The parsed value of `workers`.
  int64_t threads = 0;      // 0: not set.
  std::string device;
  int64_t ready_fd = -1;
  double lease = 10;
  double stall_timeout = 600;
  double no_worker_timeout = 600;
  std::string resume;
  bool allow_job_changes = false;
  double no_server_timeout = 600;
  bool overwrite = false;
  std::string health_listen;
  MetricsFlags metrics;
  bool await_resume = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(ServerFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "server", "[JOB.textproto]",
      "Runs one server. Server 0 is the coordinator: it reads the job and "
      "writes the results. Without JOB it uses the built-in job.",
      std::vector<CommandLine::Example>{
          {"server examples/licenses.textproto",
           "Serve workers on this machine, at 127.0.0.1:29400."},
          {"server JOB.textproto --servers 2", "Run server 0 of two."},
          {"server --servers 2 --shard 1 --coordinator 127.0.0.1:29400",
           "Run server 1, which receives the job from server 0."},
          {"server JOB.textproto --listen 0.0.0.0:29400 --tls-dir tls",
           "Serve workers on other machines, using mutual TLS."},
          {"server JOB.textproto --listen 0.0.0.0:29400 --insecure-network",
           "Serve other machines without TLS, in a trusted network."}});
  line->SetOperand(/*required=*/false, &flags->source.path);
  line->AddText(
      "listen", "HOST:PORT",
      "Address to listen on; port 0: any free port. Default: 127.0.0.1:29400 "
      "(or MASTER_PORT) for server 0, 127.0.0.1:0 for the others.",
      &flags->listen);
  AddHealthListenFlag(line.get(), "while the server takes part in the job",
                      &flags->health_listen);
  AddMetricsFlags(line.get(), &flags->metrics);
  AddSecurityFlags(line.get(), &flags->security);
  AddInsecureNetworkFlag(
      line.get(),
      "Allow --listen on an address that other machines can reach, without "
      "--tls-dir. Nothing is encrypted, and anyone in that network can join "
      "the job or read the token.",
      &flags->security);
  line->AddText(
      "advertise", "HOST[:PORT]",
      "Address that workers connect to. Default: the address of --listen.",
      &flags->advertise);
  line->AddInteger("shard",
                   "Number of this server, from 0. Default: with several "
                   "--servers, JOB_COMPLETION_INDEX, else 0.",
                   0, 4095, &flags->shard);
  line->AddInteger("servers", "Number of servers of the job. Default 1.", 1,
                   4096, &flags->servers);
  line->AddText("coordinator", "HOST:PORT",
                "Address of server 0, for the other servers. Default: "
                "MASTER_ADDR and MASTER_PORT, else 127.0.0.1:29400.",
                &flags->coordinator);
  line->AddText("workers", "N|MIN:MAX",
                "Server 0 starts the job when N, or MIN, workers have joined, "
                "or a minute after the first. More may join later, up to MAX. "
                "Default: WORLD_SIZE or the launcher's equivalent, else 1.",
                &flags->workers);
  line->AddNumber(
      "no-worker-timeout",
      "Seconds without any worker after which the job fails. Default 600.", 1,
      1e9, &flags->no_worker_timeout);
  line->AddNumber(
      "stall-timeout",
      "Seconds after which an unusually long step counts as hung. The job then "
      "continues without the worker that the step waits for or, if there is no "
      "single one, from the latest checkpoint. Default 600.",
      1, 1e9, &flags->stall_timeout);
  line->AddNumber("lease",
                  "Seconds without a heartbeat after which a worker or a "
                  "server counts as failed. Default 10.",
                  1, 86400, &flags->lease);
  line->AddInteger("threads",
                   "Threads that sum gradients and update weights. Default: "
                   "this machine's cores, at most 8.",
                   1, 1024, &flags->threads);
  AddServerDeviceFlag(line.get(), "device", &flags->device);
  line->AddText("output", "DIR",
                "Folder for the results, for server 0. Default: "
                "output.directory of the job, else runs/NAME-TIME.",
                &flags->output);
  AddOverwriteFlag(line.get(), &flags->overwrite);
  line->AddText(
      "resume", "auto|DIR",
      "For server 0. auto: resume from the latest checkpoint in --output, or "
      "start at step 0 if there is none. DIR: resume from the latest "
      "checkpoint of another run, or from a checkpoint.",
      &flags->resume);
  AddAllowJobChangesFlag(line.get(), &flags->allow_job_changes);
  line->AddNumber("no-server-timeout",
                  "Seconds without one of its servers after which the job "
                  "fails. Default 600.",
                  1, 1e9, &flags->no_server_timeout);
  AddAwaitResumeFlag(line.get(), &flags->await_resume);
  AddStepsFlag(line.get(), &flags->source);
  AddSetFlag(line.get(), "optimizer.adamw.learning_rate=0.001",
             &flags->source.sets);
  AddCredentialsFdFlag(line.get(), &flags->security);
  AddChildLogFlags(line.get(), &flags->log);
  line->AddHiddenInteger("ready-fd", 0, 1 << 20, &flags->ready_fd);
  return line;
}

absl::Status CheckListen(const ServerFlags& flags) {
  TRIBUTARY_ASSIGN_OR_RETURN(const HostPort listen,
                             ParseHostPort(flags.listen));
  if (IsLoopback(listen.host)) return absl::OkStatus();
  if (flags.security.tls_dir.empty() && flags.security.credentials_fd < 0 &&
      !flags.security.insecure_network) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen ", flags.listen,
        " can be reached by other machines; add --tls-dir DIR (for tests: "
        "`tributary certs DIR`), or --insecure-network in a network that you "
        "trust, or listen on 127.0.0.1"));
  }
  const bool any = listen.host == "0.0.0.0" || listen.host == "::";
  if (any && flags.shard > 0 && flags.advertise.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", flags.listen,
                     " is not an address that workers can connect to; add "
                     "--advertise HOST"));
  }
  return absl::OkStatus();
}

// Fills in flags that were not set, from the environment.
absl::Status FillFromEnvironment(const CommandLine& line,
                                 const Environment& environment, Logger* log,
                                 ServerFlags* flags) {
  TRIBUTARY_ASSIGN_OR_RETURN(const LauncherEnvironment launcher,
                             ReadLauncherEnvironment(environment));
  if (line.OriginOf("shard").empty() && flags->servers > 1 &&
      launcher.completion_index.has_value()) {
    flags->shard = launcher.completion_index->value;
    log->SetRank(static_cast<int>(flags->shard));
    log->Info("shard %d from %s", flags->shard,
              launcher.completion_index->variable);
  }
  if (flags->listen.empty()) {
    const int64_t port =
        launcher.port.has_value() ? launcher.port->value : kDefaultPort;
    flags->listen = JoinHostPort("127.0.0.1", flags->shard == 0 ? port : 0);
  }
  if (flags->coordinator.empty()) flags->coordinator = launcher.Coordinator();
  if (line.OriginOf("workers").empty() && launcher.world_size.has_value()) {
    flags->workers = absl::StrCat(launcher.world_size->value);
    log->Info("%s workers from %s", flags->workers,
              launcher.world_size->variable);
  }
  if (!flags->workers.empty()) {
    const auto count = ParseWorkerCount(flags->workers, kMostWorkers);
    if (!count.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          line.OriginOf("workers"), ": ", count.status().message()));
    }
    flags->count = *count;
  }
  if (flags->shard >= flags->servers) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shard ", flags->shard, " must be below --servers ",
                     flags->servers, "; shards count from 0"));
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckListen(*flags));
  if (flags->shard > 0) {
    TRIBUTARY_RETURN_IF_ERROR(ParseHostPort(flags->coordinator).status());
  }
  return absl::OkStatus();
}

// Writes the address to the descriptor that the launcher passed.
void ReportReady(int fd, const std::string& address, Logger* log) {
  const std::string line = absl::StrCat(address, "\n");
  if (write(fd, line.data(), line.size()) < 0) {
    log->Warning("cannot write to --ready-fd %d", fd);
  }
  close(fd);
}

// Sets the options that depend on the device. Requires the job, on server 0,
// and the number of threads.
absl::Status FillPasses(const ServerFlags& flags, Logger* log,
                        ServerOptions* options) {
  std::string remark;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const DeviceName device,
      ChooseServerDevice(options->job, flags.device, flags.shard,
                         Gpus{&CountCudaDevices, &CheckCudaPasses}, &remark,
                         "device"));
  if (!remark.empty()) log->Warning("%s", remark);
  options->make_passes = PassesOn(device, options->threads);
  if (device.kind != DeviceName::Kind::kCuda) return absl::OkStatus();
  log->Info("%s sums gradients and updates weights", FormatDeviceName(device));
  options->device = FormatDeviceName(device);
  return absl::OkStatus();
}

absl::Status Run(const ServerFlags& flags, const Environment& environment,
                 Logger* log, Shutdown* shutdown) {
  ServerOptions options;
  TRIBUTARY_ASSIGN_OR_RETURN(options.security,
                             ReadSecurity(flags.security, {Role::kServer}));
  if (flags.shard > 0) {
    TRIBUTARY_RETURN_IF_ERROR(
        CheckConnectTo(flags.coordinator, flags.security, options.security));
  }
  WarnOfNetwork(flags.listen, options.security, log);
  options.limits = ForWorkers(static_cast<int>(flags.count.most));
  if (flags.count.fewest < flags.count.most) {
    options.limits.workers = static_cast<int>(flags.count.most);
  }
  RaiseDescriptorLimit(options.limits.connections);
  options.threads = flags.threads > 0 ? static_cast<int>(flags.threads)
                                      : DefaultServerThreads(UsableCores());
  if (flags.shard == 0) {
    TRIBUTARY_ASSIGN_OR_RETURN(options.job, ReadJob(flags.source));
  }
  TRIBUTARY_RETURN_IF_ERROR(FillPasses(flags, log, &options));
  std::unique_ptr<OutputDirectory> output;
  if (flags.shard == 0) {
    options.output_directory =
        flags.output.empty() ? options.job.output().directory() : flags.output;
    if (options.output_directory.empty() && flags.resume == "auto") {
      return absl::InvalidArgumentError(
          "--resume auto requires --output DIR, or output.directory in the "
          "job: the folder of the run");
    }
    if (options.output_directory.empty()) {
      options.output_directory = DefaultOutputDirectory(
          options.job.name(), absl::Now(), absl::LocalTimeZone());
    }
    // A launcher that passes --ready-fd has claimed the folder itself.
    if (flags.ready_fd < 0) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          output,
          OutputDirectory::Claim(options.output_directory,
                                 EarlierRun(flags.resume, flags.overwrite)));
    }
    log->Info("writing results to %s", options.output_directory);
  }
  options.shard = static_cast<int>(flags.shard);
  options.servers = static_cast<int>(flags.servers);
  options.listen = flags.listen;
  options.advertise = flags.advertise;
  options.expected_workers = static_cast<int>(flags.count.fewest);
  options.most_workers = static_cast<int>(flags.count.most);
  options.lease = absl::Seconds(flags.lease);
  options.stall_timeout = absl::Seconds(flags.stall_timeout);
  options.no_worker_timeout = absl::Seconds(flags.no_worker_timeout);
  options.no_server_timeout = absl::Seconds(flags.no_server_timeout);
  options.resume = !flags.resume.empty();
  if (flags.resume != kResumeAuto) options.resume_from = flags.resume;
  options.allow_job_changes = flags.allow_job_changes;
  options.coordinator = flags.coordinator;
  options.await_resume = flags.await_resume;
  options.log = log;
  // A launcher that passes --ready-fd shows the progress itself.
  std::unique_ptr<ProgressConsole> console;
  if (flags.shard == 0 && flags.ready_fd < 0) {
    console = std::make_unique<ProgressConsole>(
        STDOUT_FILENO, /*json=*/flags.log.format == "json");
    options.on_status = [&console](const StatusReply& status) {
      console->Show(status);
    };
    options.on_event = [&console](const JobEvent& event) {
      console->Tell(event);
    };
  }
  std::unique_ptr<ProgressReporter> reporter;
  options.on_listening = [&](const std::string& address) {
    if (flags.ready_fd >= 0) {
      ReportReady(static_cast<int>(flags.ready_fd), address, log);
    }
    if (flags.shard == 0) {
      reporter =
          MakeProgressReporter(environment, address, options.security, log);
    }
  };
  std::unique_ptr<HealthEndpoint> health;
  TRIBUTARY_ASSIGN_OR_RETURN(
      health, StartHealthEndpoint(flags.health_listen, log, &options.on_ready));
  MetricsRegistry metrics;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<MetricsExporter> exporter,
      StartMetrics(flags.metrics, options.security,
                   flags.security.insecure_network, &metrics, log));
  options.metrics = &metrics;
  const absl::Status status = RunServer(options, shutdown);
  if (console != nullptr && status.ok()) {
    console->ShowResults(options.output_directory);
  }
  if (reporter != nullptr) reporter->Finish(/*done=*/status.ok());
  return status;
}

}  // namespace

ChunkPassMaker PassesOn(const DeviceName& device, int streams) {
  if (device.kind != DeviceName::Kind::kCuda) return &MakeBlockPasses;
  return [ordinal = device.ordinal, streams](const ChunkPassPlan& plan) {
    return MakeCudaPasses(ordinal, streams, plan);
  };
}

int DefaultServerThreads(int cores) {
  // More threads do not increase the memory bandwidth.
  constexpr int kEnoughThreads = 8;
  return std::min(cores, kEnoughThreads);
}

int RunServerCommand(const std::vector<std::string>& arguments,
                     const Environment& environment) {
  ServerFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  SignalQueue signals(/*with_children=*/false, flags.log.parent_signals > 0);
  const absl::StatusOr<std::unique_ptr<Logger>> log =
      StartProcessLog(flags.log, "server", static_cast<int>(flags.shard));
  if (!log.ok()) return ReportError(log.status());
  const absl::Status filled =
      FillFromEnvironment(*line, environment, log->get(), &flags);
  if (!filled.ok()) return ReportError(filled);
  Shutdown shutdown;
  const SignalThread signal_thread(&signals, &shutdown);
  const absl::Status status = Run(flags, environment, log->get(), &shutdown);
  return FinishProcess(log->get(), status, signal_thread.received());
}

}  // namespace tributary
