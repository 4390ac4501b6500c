// Jobs that run in this process.
#include "tributary/job.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::SizeIs;

// A model of one number that this program computes: its gradient is 1.
constexpr char kCountJob[] = R"(
  model { external { name: "count" } }
  data { external { train_samples: 16 } }
  batch { global: 8 micro_batches: 4 }
  optimizer { sgd { learning_rate: 1 momentum: 0 } }
  evaluation { disabled: true }
  steps: 6
)";

absl::Status Count(Worker* worker) {
  const absl::Status declared = worker->Declare({{"count", {1}}});
  if (!declared.ok()) return declared;
  while (Step* const step = worker->NextStep()) {
    for (MicroBatch& micro_batch : step->micro_batches()) {
      micro_batch.Add(0, {-static_cast<float>(micro_batch.indexes().size())});
      micro_batch.Finish(1);
    }
  }
  return worker->status();
}

class JobTest : public ::testing::Test {
 protected:
  Job::Options Mlp(int steps) {
    Job::Options options;
    options.text = PrintJob(TinyJob("mlp", folder_));
    options.set = {absl::StrCat("steps=", steps)};
    options.device = "cpu";
    return options;
  }
  static Job::Options Counting() {
    Job::Options options;
    options.text = kCountJob;
    options.worker = &Count;
    return options;
  }
  static absl::StatusOr<Job::Result> Run(const Job::Options& options) {
    return Job(options).Run();
  }
  static std::string Sha(const Job::Options& options) {
    const absl::StatusOr<Job::Result> result = Run(options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->weights_sha256 : "";
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_F(JobTest, HasTheResultOfTrain) {
  Job::Options options = Mlp(30);
  WriteWholeFile(folder_ + "/job.textproto", options.text);
  const CommandResult train =
      RunCommand({kTributary, "train", folder_ + "/job.textproto", "--output",
                  folder_ + "/train", "--device", "cpu", "--workers", "1"});
  ASSERT_EQ(train.exit_code, 0) << train.standard_error;
  const nlohmann::json expected =
      ParseJson(ReadWholeFile(folder_ + "/train/summary.json"));
  options.file = folder_ + "/job.textproto";
  options.text.clear();
  options.servers = 2;
  options.workers = 2;
  const absl::StatusOr<Job::Result> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->weights_sha256, expected["weights_sha256"]);
  EXPECT_EQ(result->final_loss, expected["final_loss"]);
  EXPECT_EQ(result->steps, 30);
  ASSERT_TRUE(result->evaluation.has_value());
  EXPECT_EQ(result->evaluation->step, 30);
  EXPECT_EQ(result->evaluation->loss, expected["evaluation"]["loss"]);
  EXPECT_EQ(result->evaluation->accuracy, expected["evaluation"]["accuracy"]);
  EXPECT_EQ(ParseJson(result->summary)["weights_sha256"],
            result->weights_sha256);
}

TEST_F(JobTest, ReturnsTheWeightsByName) {
  const absl::StatusOr<Job::Result> result = Run(Mlp(3));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->weights,
              ElementsAre(Key("hidden.0.bias"), Key("hidden.0.weight"),
                          Key("hidden.1.bias"), Key("hidden.1.weight"),
                          Key("output.bias"), Key("output.weight")));
  const Job::Tensor& tensor = result->weights.at("output.weight");
  EXPECT_THAT(tensor.shape, ElementsAre(3, 32));
  EXPECT_EQ(tensor.values.size(), 96u);
  EXPECT_NE(tensor.values[0], 0);
}

TEST_F(JobTest, TheProgramComputesTheGradients) {
  Job::Options options = Counting();
  options.workers = 3;
  const absl::StatusOr<Job::Result> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->weights.at("count").values, ElementsAre(6));
}

TEST_F(JobTest, CallbacksSeeEveryStepOnce) {
  Job::Options options = Mlp(30);
  options.workers = 2;
  std::vector<int64_t> steps;
  std::vector<int64_t> evaluations;
  int64_t samples = 0;
  double last_loss = 0;
  options.on_step = [&](const Job::StepMetrics& metrics) {
    steps.push_back(metrics.step);
    samples += metrics.samples;
    last_loss = metrics.loss;
    EXPECT_EQ(metrics.learning_rate, 0.1);
    EXPECT_GT(metrics.seconds, 0);
  };
  options.on_evaluation = [&](const Job::Evaluation& evaluation) {
    evaluations.push_back(evaluation.step);
    EXPECT_GT(evaluation.loss, 0);
  };
  const absl::StatusOr<Job::Result> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<int64_t> expected;
  for (int64_t step = 1; step <= 30; ++step) expected.push_back(step);
  EXPECT_EQ(steps, expected);
  EXPECT_THAT(evaluations, ElementsAre(12, 24, 30));
  // 100 samples in each epoch of seven steps, of which the last has four.
  EXPECT_EQ(samples, 4 * 100 + 2 * 16);
  EXPECT_EQ(last_loss, result->final_loss);
}

TEST_F(JobTest, JobsMayFollowEachOtherAndRunAtOnce) {
  Job::Options options = Mlp(10);
  const std::string expected = Sha(options);
  options.workers = 2;
  EXPECT_EQ(Sha(options), expected);
  std::string other;
  std::thread thread([&] { other = Sha(options); });
  EXPECT_EQ(Sha(options), expected);
  thread.join();
  EXPECT_EQ(other, expected);
}

TEST_F(JobTest, IsSilentAndLeavesNoFiles) {
  const std::string temporary = folder_ + "/tmp";
  std::filesystem::create_directory(temporary);
  const char* const before = getenv("TMPDIR");
  const std::string saved = before == nullptr ? "" : before;
  setenv("TMPDIR", temporary.c_str(), /*overwrite=*/1);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const absl::Status status = Run(Counting()).status();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  before == nullptr ? unsetenv("TMPDIR")
                    : setenv("TMPDIR", saved.c_str(), /*overwrite=*/1);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(std::filesystem::is_empty(temporary));
}

TEST_F(JobTest, ACallbackMayStopTheJob) {
  Job::Options options = Mlp(1000000);
  Job* running = nullptr;
  options.on_step = [&](const Job::StepMetrics& metrics) {
    if (metrics.step == 5) running->Stop();
  };
  Job job(options);
  running = &job;
  EXPECT_THAT(job.Run(),
              StatusIs(absl::StatusCode::kCancelled, "stopped by request"));
}

TEST_F(JobTest, AFolderThatCannotBeMadeIsNoOtherRun) {
  WriteWholeFile(folder_ + "/file", "x");
  Job::Options options = Mlp(3);
  options.output_directory = folder_ + "/file/run";
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     AllOf(HasSubstr("cannot create folder"),
                                           Not(HasSubstr("another run")))));
}

TEST_F(JobTest, ResumesInItsFolder) {
  const std::string expected = Sha(Mlp(30));
  Job::Options options = Mlp(15);
  options.set.push_back("checkpoint.every_steps=5");
  options.output_directory = folder_ + "/run";
  Sha(options);
  options.set[0] = "steps=30";
  EXPECT_THAT(Run(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("/run holds the checkpoints of another run")));
  options.resume = true;
  std::vector<int64_t> steps;
  options.on_step = [&](const Job::StepMetrics& metrics) {
    steps.push_back(metrics.step);
  };
  EXPECT_EQ(Sha(options), expected);
  EXPECT_THAT(steps, SizeIs(15));
  options.resume = false;
  options.overwrite = true;
  EXPECT_EQ(Sha(options), expected);
  EXPECT_THAT(steps, SizeIs(45));
}

TEST_F(JobTest, StopEndsAJobThatWaitsForTheProgram) {
  Job::Options options = Counting();
  options.set = {"steps=1000000000"};
  Job* running = nullptr;
  options.worker = [&](Worker* worker) {
    std::thread([&] { running->Stop(); }).join();
    return Count(worker);
  };
  Job job(options);
  running = &job;
  EXPECT_THAT(job.Run(),
              StatusIs(absl::StatusCode::kCancelled, "stopped by request"));
}

TEST_F(JobTest, StopBeforeRunEndsTheJobAtOnce) {
  Job job(Counting());
  job.Stop();
  EXPECT_THAT(job.Run(),
              StatusIs(absl::StatusCode::kCancelled, "stopped by request"));
  EXPECT_THAT(job.Run(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(JobTest, TheProgramsErrorIsThatOfTheJob) {
  Job::Options options = Counting();
  options.workers = 2;
  options.worker = [](Worker*) {
    return absl::DataLossError("the table ends at row 7");
  };
  EXPECT_THAT(Run(options),
              StatusIs(absl::StatusCode::kDataLoss, "the table ends at row 7"));
  options.worker = [](Worker*) -> absl::Status {
    throw std::runtime_error("out of paper");
  };
  EXPECT_THAT(Run(options),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("out of paper")));
  options.worker = [](Worker*) -> absl::Status { throw 7; };
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kInternal,
                                     HasSubstr("std::exception")));
  options.worker = [](Worker* worker) {
    const absl::Status declared = worker->Declare({{"count", {1}}});
    worker->NextStep();
    return declared;
  };
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(JobTest, AnotherWorkerTakesOver) {
  Job::Options options = Counting();
  options.workers = 2;
  std::atomic<int> calls = 0;
  options.worker = [&](Worker* worker) -> absl::Status {
    if (calls++ > 0) return Count(worker);
    EXPECT_TRUE(worker->Declare({{"count", {1}}}).ok());
    EXPECT_NE(worker->NextStep(), nullptr);
    return absl::InternalError("this worker fails");
  };
  const absl::StatusOr<Job::Result> result = Run(options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(result->weights.at("count").values, ElementsAre(6));
}

TEST_F(JobTest, MistakesAreNamed) {
  Job::Options options = Mlp(30);
  options.set = {"optimizer.sgd.learning_rat=1"};
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("learning_rat")));
  options = Mlp(30);
  options.set = {"data.csv.train=/nowhere.csv"};
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("/nowhere.csv")));
  options = Counting();
  options.worker = nullptr;
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("no model \"count\"")));
  options = Mlp(30);
  options.workers = 0;
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("workers is 0")));
  EXPECT_THAT(Run({}), StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr("file or text")));
  options = Mlp(30);
  options.text = "modle {}";
  EXPECT_THAT(Run(options), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("job:1:")));
}

}  // namespace
}  // namespace tributary
