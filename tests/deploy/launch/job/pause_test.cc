// Jobs that are paused and resumed, as threads of this process.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "common/base/shutdown.h"
#include "common/job/job.h"
#include "common/os/logger.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/job/job_runner.h"
#include "deploy/launch/job/process_threads.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/process/server_options.h"
#include "server/process/server_process.h"
#include "tests/support/command_runner.h"
#include "tests/support/tiny_jobs.h"
#include "worker/process/worker_process.h"

namespace tributary {
namespace {

constexpr int kServers = 2;
constexpr int kWorkers = 2;
// Steps of a job that must not end before it is paused, however late that is.
constexpr int kEndless = 10'000'000;
constexpr int kStepsAfterPause = 40;
constexpr int kPauseAfter = 5;

// A job that writes to `folder`.
class ThreadedJob {
 public:
  ThreadedJob(const JobSpec& job, const std::string& folder, bool resume)
      : job_(job),
        folder_(folder),
        resume_(resume),
        log_(*Logger::Create({})),
        runner_(Options(), &threads_) {
    runner_.Start();
  }

  JobRunner& runner() { return runner_; }
  int64_t step() const { return step_; }
  // Waits until the job may have to advance.
  void Wait() { threads_.Wait(runner_.Patience()); }

  std::string weights() const {
    return ReadRunSummary(folder_)
        .value_or(nlohmann::ordered_json::object())
        .value("weights_sha256", "");
  }

 private:
  JobRunnerOptions Options() {
    JobRunnerOptions options = JobRunnerOptions::ForThreads();
    options.servers = kServers;
    options.workers = kWorkers;
    options.server = [this](int shard, const std::string& coordinator) {
      ServerOptions server;
      server.job = job_;
      server.shard = shard;
      server.servers = kServers;
      server.expected_workers = kWorkers;
      server.output_directory = folder_;
      server.resume = resume_;
      server.coordinator = coordinator;
      server.log = log_.get();
      server.on_metrics = [this](const std::string& line) {
        step_ = ParseJson(line).value("step", int64_t{0});
        threads_.Wake();
      };
      ProcessSpec spec;
      spec.name = absl::StrCat("server-", shard);
      spec.body = [server](const ThreadContext& context) {
        ServerOptions listening = server;
        listening.on_listening = context.ready;
        return RunServer(listening, context.shutdown);
      };
      return spec;
    };
    options.worker = [this](int rank, const std::string& coordinator) {
      WorkerOptions worker;
      worker.rank = rank;
      worker.coordinator = coordinator;
      worker.log = log_.get();
      ProcessSpec spec;
      spec.name = absl::StrCat("worker-", rank);
      spec.body = [worker](const ThreadContext& context) {
        return RunWorker(worker, context.shutdown);
      };
      return spec;
    };
    return options;
  }

  const JobSpec job_;
  const std::string folder_;
  const bool resume_;
  const std::unique_ptr<Logger> log_;
  std::atomic<int64_t> step_{0};
  ProcessThreads threads_;
  JobRunner runner_;
};

TEST(PauseTest, AResumedJobHasTheWeightsOfOneThatWasNotPaused) {
  const std::string folder = MakeTestFolder();
  JobSpec job = TinyJob("mlp", folder);
  job.set_steps(kEndless);
  job.mutable_output()->set_log_every_steps(1);
  job = ResolveJob(job);
  ThreadedJob paused(job, folder + "/paused", /*resume=*/false);
  while (paused.runner().Advance()) {
    if (paused.step() >= kPauseAfter) paused.runner().Pause();
    paused.Wait();
  }
  ASSERT_TRUE(paused.runner().end().paused) << paused.runner().end().status;
  const auto checkpoints =
      ListCheckpoints(CheckpointsFolder(folder + "/paused"));
  ASSERT_TRUE(checkpoints.ok() && !checkpoints->empty());
  job.set_steps(checkpoints->front().step + kStepsAfterPause);
  ThreadedJob whole(job, folder + "/whole", /*resume=*/false);
  ThreadedJob resumed(job, folder + "/paused", /*resume=*/true);
  // One thread runs both.
  while (whole.runner().Advance() | resumed.runner().Advance()) {
    resumed.Wait();
  }
  EXPECT_TRUE(whole.runner().end().status.ok()) << whole.runner().end().status;
  EXPECT_TRUE(resumed.runner().end().status.ok())
      << resumed.runner().end().status;
  EXPECT_EQ(resumed.weights(), whole.weights());
  EXPECT_NE(resumed.weights(), "");
}

}  // namespace
}  // namespace tributary
