#include "deploy/launch/in_process/in_process_launch.h"

#include <unistd.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/os/logger.h"
#include "common/os/process.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/output_directory.h"
#include "deploy/launch/in_process/in_process_members.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "deploy/launch/job/process_threads.h"
#include "worker/device/cuda/cuda_reduction_stream.h"
#include "worker/device/cuda/libraries/nccl_library.h"

namespace tributary {
namespace {

LogOptions LogOf(const JobLaunch& launch, const char* role, int number) {
  LogOptions log;
  // The flag was checked.
  log.level = ParseLogLevel(launch.log.level).value_or(LogLevel::kInfo);
  log.json = launch.log.format == "json";
  log.role = role;
  log.rank = number;
  log.standard_error = false;
  log.file = absl::StrCat(launch.output, "/logs/", role, "-", number, ".log");
  return log;
}

ServerOptions ServerOf(const JobLaunch& launch, const InProcessDevices& devices,
                       int shard) {
  ServerOptions server;
  server.shard = shard;
  server.servers = launch.servers;
  server.threads = launch.ThreadsOfServer();
  server.make_passes = devices.make_passes;
  server.device = devices.server;
  server.job = launch.job;
  server.output_directory = launch.output;
  server.expected_workers = static_cast<int>(launch.workers.fewest);
  server.most_workers = static_cast<int>(launch.workers.most + launch.spares);
  server.resume = !launch.resume.empty();
  if (launch.resume != kResumeAuto) server.resume_from = launch.resume;
  server.allow_job_changes = launch.allow_job_changes;
  return server;
}

WorkerOptions WorkerOf(const JobLaunch& launch, const DeviceName& device,
                       const TrainingSources& sources, int rank) {
  WorkerOptions worker;
  worker.rank = rank;
  worker.threads = launch.threads;
  worker.sources = sources;
  worker.make_device = [device](Precision precision) {
    return CreateDevice(device, precision);
  };
  worker.load_nccl = &LoadNccl;
  worker.make_reduction_stream = &CreateCudaReductionStream;
  return worker;
}

}  // namespace

JobRunnerOptions InProcessRunnerOptions(const JobLaunch& launch,
                                        const InProcessDevices& devices,
                                        const TrainingSources& sources,
                                        InProcessNetwork* network) {
  JobRunnerOptions options = JobRunnerOptions::ForThreads();
  options.servers = launch.servers;
  options.workers = static_cast<int>(launch.workers.most + launch.spares);
  if (launch.workers.fewest < launch.workers.most) {
    options.fewest_workers = static_cast<int>(launch.workers.fewest);
  }
  options.connect = [network](const std::string&) {
    return network->ConnectRunner();
  };
  options.server = [&launch, &devices, network](int shard, const std::string&) {
    return InProcessServer(network, ServerOf(launch, devices, shard),
                           LogOf(launch, "server", shard));
  };
  options.worker = [&launch, &devices, &sources, network](int rank,
                                                          const std::string&) {
    return InProcessWorker(
        network, WorkerOf(launch, devices.workers[rank], sources, rank),
        LogOf(launch, "worker", rank));
  };
  return options;
}

JobEnd RunInProcess(const JobLaunch& launch, const InProcessDevices& devices,
                    const TrainingSources& sources, SignalQueue* signals,
                    ProgressDisplay* display) {
  InProcessNetwork network(UsableCores());
  ProcessThreads threads([signals] { signals->Wake(); });
  int first = 0;
  return RunShown(
      InProcessRunnerOptions(launch, devices, sources, &network), &threads,
      launch.output,
      [signals, &first](absl::Duration longest) {
        const int signal = signals->Wait(longest);
        if (signal != 0 && first != 0 && EndsImmediately(first, signal)) {
          _exit(ExitCodeOfSignal(signal));
        }
        if (first == 0) first = signal;
        return signal;
      },
      display);
}

}  // namespace tributary
