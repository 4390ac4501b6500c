// Jobs that run in one process have the bits of the same jobs over gRPC.
#include "deploy/launch/in_process/in_process_launch.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/job/job.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/run_files.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "deploy/launch/job/process_threads.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/checkpoint/checkpoint_folder.h"
#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// A job that is run in one way after the other.
class Runs {
 public:
  explicit Runs(const std::string& family)
      : folder_(MakeTestFolder()), job_(TinyJob(family, folder_)) {}

  void Set(const std::string& field) {
    const absl::Status status = SetField(&job_, field);
    ASSERT_TRUE(status.ok()) << status;
  }

  JobLaunch Launch(int workers, int servers) {
    JobLaunch launch;
    launch.job = job_;
    launch.output = absl::StrCat(folder_, "/run-", runs_++);
    launch.job.mutable_output()->set_directory(launch.output);
    launch.job = ResolveJob(launch.job);
    launch.workers = {workers, workers};
    launch.servers = servers;
    const absl::Status written = WriteJobFolder(launch);
    EXPECT_TRUE(written.ok()) << written;
    return launch;
  }

  JobEnd Train(const JobLaunch& launch) {
    InProcessDevices devices;
    devices.workers.assign(
        static_cast<size_t>(launch.workers.most + launch.spares),
        DeviceName{DeviceName::Kind::kCpu});
    ProgressDisplay display(STDERR_FILENO, ProgressStyle::kNone,
                            /*log_every_steps=*/100);
    return RunInProcess(launch, devices, TrainingSources(), &signals_,
                        &display);
  }

  // Returns the weights' digest and the losses.
  std::string InProcess(int workers, int servers) {
    const JobLaunch launch = Launch(workers, servers);
    const JobEnd end = Train(launch);
    EXPECT_TRUE(end.status.ok()) << end.status;
    EXPECT_EQ(end.exit_code, kExitDone);
    return ResultOf(
        ReadRunSummary(launch.output).value_or(nlohmann::ordered_json()));
  }

  std::string OverGrpc(int workers, int servers) {
    LocalCluster cluster(job_, servers, workers,
                         absl::StrCat(folder_, "/run-", runs_++));
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
    return ResultOf(cluster.Summary());
  }

  SignalQueue* signals() { return &signals_; }

 private:
  static std::string ResultOf(const nlohmann::ordered_json& summary) {
    const std::string digest = summary.value("weights_sha256", "");
    EXPECT_EQ(digest.size(), 64u);
    return absl::StrCat(digest, " ", summary.value("final_loss", -1.0), " ",
                        summary.contains("evaluation")
                            ? summary["evaluation"].value("loss", -1.0)
                            : 0);
  }

  SignalQueue signals_;
  const std::string folder_;
  JobSpec job_;
  int runs_ = 0;
};

class InProcessModelTest : public testing::TestWithParam<const char*> {};

TEST_P(InProcessModelTest, HasTheBitsOfTheSameJobOverGrpc) {
  Runs runs(GetParam());
  const std::string expected = runs.OverGrpc(/*workers=*/2, /*servers=*/1);
  for (const int workers : {1, 2, 3}) {
    for (const int servers : {1, 2}) {
      EXPECT_EQ(runs.InProcess(workers, servers), expected)
          << workers << " workers, " << servers << " servers";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, InProcessModelTest,
                         testing::Values("mlp", "cnn", "gpt"),
                         [](const auto& info) { return info.param; });

// Settings, divided by "; ", with which other messages travel than in a plain
// synchronous job, or with which servers agree on more than the step.
class InProcessSettingTest
    : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(InProcessSettingTest, HasTheBitsOfTheSameJobOverGrpc) {
  Runs runs("mlp");
  runs.Set("clip_norm=0.5");
  for (const auto field : absl::StrSplit(GetParam().second, "; ")) {
    runs.Set(std::string(field));
  }
  const int servers =
      absl::StrContains(GetParam().second, "all_reduce") ? 1 : 2;
  EXPECT_EQ(runs.InProcess(/*workers=*/3, servers),
            runs.OverGrpc(/*workers=*/2, servers));
}

INSTANTIATE_TEST_SUITE_P(
    Settings, InProcessSettingTest,
    testing::Values(
        std::make_pair("LocalSteps",
                       "exchange.parameter_server.consistency.local_steps={ "
                       "inner_steps: 3 }"),
        std::make_pair("AllReduce", "exchange.all_reduce={}"),
        std::make_pair("ShardedOptimizer",
                       "exchange.all_reduce={ shard_optimizer: true }"),
        std::make_pair("Streams", "exchange.transport=WIRE"),
        std::make_pair("Replicas", "recovery.journal=true"),
        std::make_pair("Lamb",
                       "clip_norm=0; optimizer.lamb={ learning_rate: 0.01 }"),
        std::make_pair("Plateau",
                       "evaluation.every_steps=2; schedule={ decay: PLATEAU "
                       "decay_factor: 0.5 patience: 0 threshold: 0.5 }"),
        std::make_pair("Pipeline", "parallel.pipeline={ stages: 2 }"),
        std::make_pair("ShardedWeights", "parallel.sharded_weights=true")),
    [](const auto& info) { return info.param.first; });

TEST(InProcessLaunchTest, ModesWithoutFixedBitsEndWithFiniteLosses) {
  for (const char* mode : {"asynchronous={}", "stale_synchronous={}"}) {
    Runs runs("mlp");
    runs.Set(absl::StrCat("exchange.parameter_server.consistency.", mode));
    EXPECT_NE(runs.InProcess(/*workers=*/3, /*servers=*/2), "") << mode;
  }
}

TEST(InProcessLaunchTest, ASignalStopsTheJobAtACheckpointFromWhichItResumes) {
  Runs runs("mlp");
  runs.Set("steps=10000000");
  runs.Set("checkpoint.every_steps=1");
  JobLaunch launch = runs.Launch(/*workers=*/2, /*servers=*/2);
  raise(SIGUSR1);
  const JobEnd end = runs.Train(launch);
  EXPECT_TRUE(absl::IsCancelled(end.status)) << end.status;
  EXPECT_EQ(end.signal, SIGUSR1);
  EXPECT_EQ(end.exit_code, ExitCodeOfStop(SIGUSR1));
}

TEST(InProcessLaunchTest, TheEventsOfTheRunnerAreRecorded) {
  Runs runs("mlp");
  JobLaunch launch = runs.Launch(/*workers=*/2, /*servers=*/1);
  launch.workers.fewest = 1;
  const std::string events = launch.output + "/events.jsonl";
  const auto is_recorded = [&events] {
    return std::filesystem::exists(events) &&
           absl::StrContains(ReadWholeFile(events), "process_ended");
  };
  absl::Notification recorded;
  InProcessDevices devices;
  devices.workers.assign(2, DeviceName{DeviceName::Kind::kCpu});
  const TrainingSources sources;
  InProcessNetwork network(/*threads=*/2);
  ProcessThreads threads([&runs] { runs.signals()->Wake(); });
  JobRunnerOptions options =
      InProcessRunnerOptions(launch, devices, sources, &network);
  options.on_tick = [&](const StatusReply&) {
    if (!recorded.HasBeenNotified() && is_recorded()) recorded.Notify();
  };
  options.worker = [&recorded, make = options.worker](int rank,
                                                      const std::string& to) {
    ProcessSpec spec = make(rank, to);
    if (rank == 1) {
      spec.body = [](const ThreadContext&) {
        return absl::InvalidArgumentError("no data");
      };
    } else {
      // The job could end before the runner has noticed that worker 1 has.
      spec.body = [&recorded, body = spec.body](const ThreadContext& context) {
        recorded.WaitForNotificationWithTimeout(absl::Minutes(1));
        return body(context);
      };
    }
    return spec;
  };
  JobRunner runner(std::move(options), &threads);
  const JobEnd end = runner.Wait(runs.signals());
  EXPECT_TRUE(end.status.ok()) << end.status;
  EXPECT_TRUE(is_recorded());
}

TEST(InProcessLaunchTest, AWorkerThatCannotTakePartIsNamedWithItsLog) {
  Runs runs("mlp");
  JobLaunch launch = runs.Launch(/*workers=*/1, /*servers=*/1);
  launch.job.mutable_data()->mutable_idx()->set_directory("/nowhere");
  ASSERT_TRUE(WriteJobFolder(launch).ok());
  const JobEnd end = runs.Train(launch);
  EXPECT_EQ(end.exit_code, kExitUsage);
  EXPECT_THAT(std::string(end.status.message()), HasSubstr("worker 0"));
  EXPECT_THAT(std::string(end.status.message()), HasSubstr("/nowhere"));
  EXPECT_THAT(std::string(end.status.message()),
              HasSubstr(launch.output + "/logs/"));
}

}  // namespace
}  // namespace tributary
