// The moving average of the weights (optimizer.average_decay): the same bits
// for every cluster and after failures, and the average that the formula of
// job.proto gives for the weights of each step.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/tensor_io/safetensors.h"
#include "deploy/flags/run_files.h"
#include "gtest/gtest.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

constexpr double kDecay = 0.8;
constexpr int kSteps = 12;

class AverageTest : public testing::Test {
 protected:
  using Tensors = std::map<std::string, RunTensor>;

  AverageTest() : job_(TinyJob("resnet", Directory("data"))) {
    Set(absl::StrCat("steps=", kSteps));
    Set(absl::StrCat("optimizer.average_decay=", kDecay));
  }

  static std::string Directory(const std::string& name) {
    const std::string path = absl::StrCat(
        testing::TempDir(), "/",
        testing::UnitTest::GetInstance()->current_test_info()->name(), "-",
        name);
    EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
    return path;
  }

  void Set(const std::string& field) {
    const absl::Status status = SetField(&job_, field);
    ASSERT_TRUE(status.ok()) << status;
  }

  // Trains, and returns the average.
  Tensors Train(int workers, int servers, const std::string& name) {
    const std::string directory = Directory(name);
    LocalCluster cluster(job_, servers, workers, directory);
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    const absl::Status status = cluster.Await();
    EXPECT_TRUE(status.ok()) << status;
    return Read(directory, FinalWeights::kAverage);
  }

  static Tensors Read(const std::string& directory, FinalWeights which) {
    auto tensors = ReadFinalModel(directory, which);
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    return tensors.ok() ? *std::move(tensors) : Tensors();
  }

  static void ExpectSame(const Tensors& a, const Tensors& b) {
    ASSERT_EQ(a.size(), b.size());
    ASSERT_FALSE(a.empty());
    for (const auto& [name, tensor] : a) {
      EXPECT_EQ(tensor.values, b.at(name).values) << name;
    }
  }

  JobSpec job_;
};

TEST_F(AverageTest, IsTheFormulasAverageOfTheWeightsOfEveryStep) {
  Set("checkpoint.every_steps=1");
  Set("checkpoint.keep_last=0");
  const Tensors average = Train(/*workers=*/1, /*servers=*/1, "run");
  std::map<std::string, std::vector<double>> expected;
  int versions = 0;
  for (int step = 0; step <= kSteps; ++step) {
    const auto file = SafetensorsFile::Open(
        absl::StrCat(Directory("run"), "/checkpoints/step-",
                     absl::StrFormat("%08d", step), "/model.safetensors"));
    if (!file.ok()) continue;
    ++versions;
    for (const TensorEntry& entry : file->tensors()) {
      std::vector<float> values((entry.end - entry.begin) / sizeof(float));
      ASSERT_TRUE(file->ReadFloats(entry, absl::MakeSpan(values)).ok());
      std::vector<double>& mean = expected[entry.name];
      const bool statistic = absl::StrContains(entry.name, "running_");
      if (mean.empty() || statistic) mean.assign(values.begin(), values.end());
      for (size_t i = 0; i < values.size(); ++i) {
        mean[i] = kDecay * mean[i] + (1 - kDecay) * values[i];
      }
    }
  }
  ASSERT_EQ(versions, kSteps + 1);
  const Tensors last = Read(Directory("run"), FinalWeights::kLast);
  bool differs = false;
  for (const auto& [name, tensor] : average) {
    const std::vector<double>& mean = expected.at(name);
    ASSERT_EQ(tensor.values.size(), mean.size()) << name;
    for (size_t i = 0; i < mean.size(); ++i) {
      ASSERT_NEAR(tensor.values[i], mean[i], 1e-5) << name << " " << i;
    }
    differs = differs || tensor.values != last.at(name).values;
  }
  EXPECT_TRUE(differs);
}

TEST_F(AverageTest, HasTheSameBitsForEveryCluster) {
  const Tensors expected = Train(/*workers=*/1, /*servers=*/1, "one");
  ExpectSame(Train(/*workers=*/2, /*servers=*/3, "two"), expected);
  ExpectSame(Train(/*workers=*/4, /*servers=*/2, "four"), expected);
  Set("exchange.all_reduce={backend: GLOO}");
  ExpectSame(Train(/*workers=*/2, /*servers=*/1, "reduced"), expected);
  Set("exchange.all_reduce.shard_optimizer=true");
  ExpectSame(Train(/*workers=*/2, /*servers=*/1, "sharded"), expected);
}

TEST_F(AverageTest, LocalStepsAverageTheWeightsOfRounds) {
  Set("exchange.parameter_server.consistency.local_steps={inner_steps: 3}");
  const Tensors expected = Train(/*workers=*/1, /*servers=*/1, "one");
  ExpectSame(Train(/*workers=*/2, /*servers=*/2, "two"), expected);
}

TEST_F(AverageTest, ARunWithoutAverageSaysSo) {
  job_.mutable_optimizer()->clear_average_decay();
  const std::string directory = Directory("run");
  LocalCluster cluster(job_, 1, 1, directory);
  cluster.StartWorker();
  ASSERT_TRUE(cluster.Await().ok());
  const absl::Status status =
      FinalWeightsPath(directory, FinalWeights::kAverage).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(
      status.message(),
      "has no average of the weights; train with optimizer.average_decay"))
      << status;
}

}  // namespace
}  // namespace tributary
