#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/shutdown.h"
#include "common/base/status_macros.h"
#include "common/metrics/metrics_exporter.h"
#include "common/metrics/metrics_registry.h"
#include "common/os/logger.h"
#include "common/os/process.h"
#include "common/transport/health_endpoint.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/health_flags.h"
#include "deploy/flags/metrics_flags.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/kubeflow/progress_reporter.h"
#include "worker/data/cache/cached_data.h"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/device/factory/device_factory.h"
#include "worker/process/worker_process.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

// Streams of a GPU share so many hardware queues, and NCCL needs one for each
// other worker (see NcclLibrary::hardware_queues). CUDA permits 32; its default
// is 8.
constexpr char kMaxConnections[] = "32";

struct WorkerFlags {
  std::string coordinator;
  LogFlags log;
  SecurityFlags security;
  int64_t rank = -1;
  int64_t threads = 0;
  std::string device;
  int64_t local_rank = 0;
  double connect_timeout = 60;
  std::string host;
  std::string health_listen;
  std::string data_cache;
  MetricsFlags metrics;
  bool await_resume = false;
};

std::unique_ptr<CommandLine> MakeCommandLine(WorkerFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "worker", "",
      "Runs one worker, which receives the job from server 0, computes its "
      "part of every step, and ends with the job.",
      std::vector<CommandLine::Example>{
          {"worker", "Join the server on this machine, at 127.0.0.1:29400."},
          {"worker --coordinator node1:29400 --threads 8",
           "Join the server on node1. The job's data paths refer to this "
           "machine."},
          {"worker --rank 3", "Request rank 3."}});
  line->AddText("coordinator", "HOST[:PORT]",
                "Address of server 0. Default: MASTER_ADDR and MASTER_PORT, "
                "else 127.0.0.1:29400.",
                &flags->coordinator);
  line->AddInteger(
      "rank",
      "Rank among the workers, from 0; -1: any. It never changes the result. "
      "Default: RANK, SLURM_PROCID, OMPI_COMM_WORLD_RANK, PET_NODE_RANK or "
      "JOB_COMPLETION_INDEX, else -1.",
      -1, 65535, &flags->rank);
  line->AddInteger(
      "threads",
      "Number of compute threads. It never changes the result. Default: the "
      "cores of this machine divided by its workers, if the launcher's "
      "environment gives their number; on a GPU, 2.",
      1, 1024, &flags->threads);
  AddDeviceFlag(line.get(), "auto", &flags->device);
  // Index of this worker on its machine, which selects its GPU.
  line->AddHiddenInteger("local-rank", 0, 65535, &flags->local_rank);
  line->AddNumber(
      "connect-timeout",
      "Seconds to retry connecting to the servers at the start. Default 60.", 0,
      86400, &flags->connect_timeout);
  line->AddText(
      "advertise", "HOST",
      "In an all-reduce: the name or address at which other workers reach this "
      "machine. Default: the address from which it reaches server 0.",
      &flags->host);
  line->AddText("data-cache", "DIR",
                "Keep decoded pictures and rows in DIR, which the workers of "
                "several jobs on this machine may share, and read them there "
                "instead of decoding them again. It never changes the result. "
                "Default: workers decode their data themselves.",
                &flags->data_cache);
  AddAwaitResumeFlag(line.get(), &flags->await_resume);
  AddHealthListenFlag(line.get(), "while the worker takes part in the job",
                      &flags->health_listen);
  AddMetricsFlags(line.get(), &flags->metrics);
  AddSecurityFlags(line.get(), &flags->security);
  AddInsecureNetworkFlag(
      line.get(),
      "Allow sending the token to other machines unencrypted, without "
      "--tls-dir; with --tls-dir, the gradients of an all-reduce.",
      &flags->security);
  AddCredentialsFdFlag(line.get(), &flags->security);
  AddChildLogFlags(line.get(), &flags->log);
  return line;
}

// Fills in flags that were not set, from the environment.
absl::Status FillFromEnvironment(const CommandLine& line,
                                 const LauncherEnvironment& launcher,
                                 Logger* log, WorkerFlags* flags) {
  if (flags->coordinator.empty()) flags->coordinator = launcher.Coordinator();
  if (!absl::StrContains(flags->coordinator, ":")) {
    flags->coordinator = JoinHostPort(flags->coordinator, kDefaultPort);
  }
  TRIBUTARY_RETURN_IF_ERROR(ParseHostPort(flags->coordinator).status());
  if (line.OriginOf("rank").empty() && launcher.rank.has_value()) {
    flags->rank = launcher.rank->value;
    log->SetRank(static_cast<int>(flags->rank));
    log->Info("rank %d%s from %s", flags->rank,
              launcher.world_size.has_value()
                  ? absl::StrCat("/", launcher.world_size->value)
                  : std::string(),
              launcher.rank->variable);
  }
  if (line.OriginOf("local-rank").empty() && launcher.local_rank.has_value()) {
    flags->local_rank = launcher.local_rank->value;
  }
  return absl::OkStatus();
}

// Sets the flags that depend on the device.
absl::Status FillDevice(const LauncherEnvironment& launcher, Logger* log,
                        WorkerFlags* flags, DeviceName* device) {
  std::string remark;
  TRIBUTARY_ASSIGN_OR_RETURN(
      *device,
      ChooseDevice(flags->device, flags->local_rank, MachineGpus(), &remark));
  if (!remark.empty()) log->Warning("%s", remark);
  if (flags->threads > 0) return absl::OkStatus();
  if (device->kind == DeviceName::Kind::kCuda) {
    flags->threads = kThreadsPerGpu;
  } else if (launcher.threads.has_value()) {
    flags->threads = launcher.threads->value;
  } else {
    const int64_t here = launcher.local_world_size.has_value()
                             ? launcher.local_world_size->value
                             : 1;
    flags->threads = std::max<int64_t>(1, UsableCores() / here);
  }
  return absl::OkStatus();
}

}  // namespace

int RunWorkerCommand(const std::vector<std::string>& arguments,
                     const Environment& environment,
                     const TrainingSources& sources) {
  // CUDA reads it at its first use; no other thread exists yet.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", kMaxConnections, /*overwrite=*/0);
  WorkerFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  SignalQueue signals(/*with_children=*/false, flags.log.parent_signals > 0);
  const absl::StatusOr<LauncherEnvironment> launcher =
      ReadLauncherEnvironment(environment);
  if (!launcher.ok()) return ReportError(launcher.status());
  const absl::StatusOr<std::unique_ptr<Logger>> log =
      StartProcessLog(flags.log, "worker", static_cast<int>(flags.rank));
  if (!log.ok()) return ReportError(log.status());
  const absl::Status filled =
      FillFromEnvironment(*line, *launcher, log->get(), &flags);
  if (!filled.ok()) return ReportError(filled);
  WorkerOptions options;
  absl::StatusOr<Security> security =
      ReadSecurity(flags.security, {Role::kWorker});
  if (!security.ok()) return ReportError(security.status());
  options.security = *std::move(security);
  const absl::Status allowed =
      CheckConnectTo(flags.coordinator, flags.security, options.security);
  if (!allowed.ok()) return ReportError(allowed);
  WarnOfNetwork(flags.coordinator, options.security, log->get());
  options.coordinator = flags.coordinator;
  options.host = flags.host;
  options.insecure_network = flags.security.insecure_network;
  options.rank = static_cast<int>(flags.rank);
  DeviceName device;
  const absl::Status chosen =
      FillDevice(*launcher, log->get(), &flags, &device);
  if (!chosen.ok()) return ReportError(chosen);
  options.make_device = [device](Precision precision) {
    return CreateDevice(device, precision);
  };
  options.load_nccl = &LoadNccl;
  options.make_reduction_stream = &CreateCudaReductionStream;
  options.threads = static_cast<int>(flags.threads);
  options.connect_timeout = absl::Seconds(flags.connect_timeout);
  options.log = log->get();
  options.sources = sources;
  if (!flags.data_cache.empty()) {
    options.sources.open_data = CacheData(
        sources.open_data,
        {flags.data_cache, [log = log->get()](const std::string& message) {
           log->Warning("%s", message);
         }});
  }
  options.await_resume = flags.await_resume;
  const auto health =
      StartHealthEndpoint(flags.health_listen, log->get(), &options.on_joined);
  if (!health.ok()) return ReportError(health.status());
  MetricsRegistry metrics;
  const absl::StatusOr<std::unique_ptr<MetricsExporter>> exporter =
      StartMetrics(flags.metrics, options.security,
                   flags.security.insecure_network, &metrics, log->get());
  if (!exporter.ok()) return ReportError(exporter.status());
  options.metrics = &metrics;
  // Kubeflow gives the address for reports to the pods of workers only.
  std::unique_ptr<ProgressReporter> reporter;
  if (line->OriginOf("rank").empty() && flags.rank == 0) {
    reporter = MakeProgressReporter(environment, flags.coordinator,
                                    options.security, log->get());
  }
  Shutdown shutdown;
  const SignalThread signal_thread(&signals, &shutdown);
  const absl::Status status = RunWorker(options, &shutdown);
  if (reporter != nullptr) reporter->Finish(/*done=*/status.ok());
  if (DeviceHasFailed(status)) return ReportError(status, kExitPreempted);
  return FinishProcess(log->get(), status, signal_thread.received());
}

}  // namespace tributary
