#include "deploy/tools/bench/bench_run.h"

#include <time.h>

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/os/process.h"
#include "common/os/temporary_directory.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/in_process/in_process_launch.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/process_threads.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// The first steps touch memory for the first time.
constexpr int64_t kWarmUpSteps = 3;
// Interval at which the step and the processes' CPU time are read: short enough
// for runs of a second, long enough to be negligible.
constexpr absl::Duration kTick = absl::Milliseconds(50);

// Measures the CPU time of processes between the first reading after the
// warm-up and the last one before the end.
class CpuWatch {
 public:
  // The first `servers` processes are servers. `step` steps are complete.
  void Look(int64_t step, const std::vector<pid_t>& pids, int servers) {
    if (step < kWarmUpSteps || (begin_.has_value() && step == end_.step)) {
      return;
    }
    Sample sample;
    sample.step = step;
    for (size_t i = 0; i < pids.size(); ++i) {
      const absl::optional<double> seconds = CpuSecondsOf(pids[i]);
      if (!seconds.has_value()) return;  // The processes have ended.
      (static_cast<int>(i) < servers ? sample.servers : sample.workers) +=
          *seconds;
    }
    if (!begin_.has_value()) begin_ = sample;
    end_ = sample;
  }

  void Tell(BenchRun* run) const {
    if (!begin_.has_value() || end_.step == begin_->step) return;
    const auto steps = static_cast<double>(end_.step - begin_->step);
    run->server_cpu_per_step = (end_.servers - begin_->servers) / steps;
    run->worker_cpu_per_step = (end_.workers - begin_->workers) / steps;
  }

 private:
  struct Sample {
    int64_t step = 0;
    double servers = 0;
    double workers = 0;
  };

  absl::optional<Sample> begin_;
  Sample end_;
};

// Runs the job in this process.
absl::Status RunThreads(const JobLaunch& launch, SignalQueue* signals) {
  InProcessDevices devices;
  devices.workers.assign(static_cast<size_t>(launch.workers.most),
                         DeviceName{DeviceName::Kind::kCpu});
  const TrainingSources sources;
  InProcessNetwork network(UsableCores());
  ProcessThreads threads([signals] { signals->Wake(); });
  JobRunnerOptions options =
      InProcessRunnerOptions(launch, devices, sources, &network);
  options.fewest_workers = options.workers;
  return JobRunner(std::move(options), &threads).Wait(signals).status;
}

}  // namespace

absl::optional<double> CpuSecondsOf(pid_t pid) {
  clockid_t clock;
  timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0 ||
      clock_gettime(clock, &time) != 0) {
    return absl::nullopt;
  }
  return static_cast<double>(time.tv_sec) +
         1e-9 * static_cast<double>(time.tv_nsec);
}

absl::StatusOr<BenchRun> RunBenchJob(JobLaunch launch, SignalQueue* signals,
                                     bool in_process) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TemporaryDirectory> directory,
      TemporaryDirectory::Create());
  launch.output = directory->path();
  launch.log.level = "warning";
  TRIBUTARY_RETURN_IF_ERROR(WriteJobFolder(launch));
  BenchRun run;
  if (in_process) {
    TRIBUTARY_RETURN_IF_ERROR(RunThreads(launch, signals));
    TRIBUTARY_ASSIGN_OR_RETURN(run.summary, ReadRunSummary(launch.output));
    return run;
  }
  TRIBUTARY_ASSIGN_OR_RETURN(JobRunnerOptions options,
                             MakeRunnerOptions(launch));
  options.fewest_workers = options.workers;  // Fewer would be another result.
  options.tick = kTick;
  CpuWatch watch;
  JobRunner* running = nullptr;
  options.on_tick = [&](const StatusReply& status) {
    if (status.phase() == StatusReply::TRAINING) {
      watch.Look(status.step(), running->pids(), launch.servers);
    }
  };
  JobRunner runner(std::move(options));
  running = &runner;
  TRIBUTARY_RETURN_IF_ERROR(runner.Wait(signals).status);
  TRIBUTARY_ASSIGN_OR_RETURN(run.summary, ReadRunSummary(launch.output));
  watch.Tell(&run);
  return run;
}

}  // namespace tributary
