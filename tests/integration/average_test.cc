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
#include "deploy/flags/run_files.h"
#include "deploy/launch/train/run_folder.h"
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
    ASSERT_EQ(SetField(&job_, field), absl::OkStatus());
  }

  // Trains, and returns the average.
  Tensors Train(int workers, int servers, const std::string& name) {
    const std::string directory = Directory(name);
    LocalCluster cluster(job_, servers, workers, directory);
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
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

// A job of k steps computes the same first k steps as a longer job, so jobs of
// every length give the weights and the average of every step.
TEST_F(AverageTest, IsTheFormulasAverageOfTheWeightsOfEveryStep) {
  // The initial weights follow from two averages of one step.
  Set("steps=1");
  Set("optimizer.average_decay=0.5");
  const Tensors half = Train(/*workers=*/1, /*servers=*/1, "half");
  Set(absl::StrCat("optimizer.average_decay=", kDecay));
  std::map<std::string, std::vector<double>> expected;
  bool differs = false;
  for (int steps = 1; steps <= kSteps; ++steps) {
    SCOPED_TRACE(steps);
    Set(absl::StrCat("steps=", steps));
    const std::string run = absl::StrCat("run-", steps);
    const Tensors average = Train(/*workers=*/1, /*servers=*/1, run);
    const Tensors last = Read(Directory(run), FinalWeights::kLast);
    for (const auto& [name, tensor] : average) {
      const std::vector<float>& weights = last.at(name).values;
      std::vector<double>& mean = expected[name];
      ASSERT_EQ(tensor.values.size(), weights.size()) << name;
      const bool statistic = absl::StrContains(name, "running_");
      for (size_t i = 0; i < weights.size(); ++i) {
        if (steps == 1) {
          mean.push_back(2.0 * half.at(name).values[i] - weights[i]);
        }
        mean[i] = statistic ? weights[i]
                            : kDecay * mean[i] + (1 - kDecay) * weights[i];
        ASSERT_NEAR(tensor.values[i], mean[i], 1e-5) << name << " " << i;
      }
      differs = differs || tensor.values != weights;
    }
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

TEST_F(AverageTest, ACheckpointHasTheAverage) {
  const Tensors expected = Train(/*workers=*/1, /*servers=*/2, "run");
  const absl::StatusOr<RunFolder> checkpoint = RunFolder::Open(absl::StrCat(
      Directory("run"), absl::StrFormat("/checkpoints/step-%08d", kSteps)));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectSame(Read(checkpoint->path(), FinalWeights::kAverage), expected);
  ExpectSame(Read(checkpoint->path(), FinalWeights::kLast),
             Read(Directory("run"), FinalWeights::kLast));
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
