// Jobs that begin with the weights of another run, and train a part of them.
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "deploy/flags/run_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/local_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

std::string InitialWeightsDirectory(const std::string& name) {
  const std::string path = absl::StrCat(
      testing::TempDir(), "/",
      testing::UnitTest::GetInstance()->current_test_info()->name(), "-", name);
  EXPECT_EQ(std::system(absl::StrCat("mkdir -p '", path, "'").c_str()), 0);
  return path;
}

void InitialWeightsSet(JobSpec* job, const std::string& field) {
  ASSERT_EQ(SetField(job, field), absl::OkStatus());
}

// Trains the job, and returns how it ended.
absl::Status Train(const JobSpec& job, int workers, int servers,
                   const std::string& directory) {
  LocalCluster cluster(job, servers, workers, directory);
  for (int i = 0; i < workers; ++i) cluster.StartWorker();
  return cluster.Await();
}

std::map<std::string, RunTensor> ModelOf(const std::string& directory) {
  auto model = ReadFinalModel(directory);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

TEST(InitialWeightsTest, TrainsTheOtherParametersToTheSameBits) {
  const std::string data = InitialWeightsDirectory("data"),
                    first = InitialWeightsDirectory("first");
  const JobSpec job = TinyJob("mlp", data);
  ASSERT_TRUE(Train(job, /*workers=*/1, /*servers=*/1, first).ok());
  const auto initial = ModelOf(first);

  JobSpec tuned = job;
  InitialWeightsSet(&tuned,
                    "optimizer.adamw={learning_rate: 0.01 weight_decay: 0.1}");
  InitialWeightsSet(&tuned, absl::StrCat("model.initial_weights.path=", first));
  tuned.mutable_model()->mutable_initial_weights()->add_freeze("hidden.*");
  ParameterGroupSpec* const group = tuned.mutable_optimizer()->add_group();
  group->add_parameters("*");
  group->set_learning_rate_factor(0.5);
  group->set_weight_decay(true);
  std::map<std::string, RunTensor> expected;
  for (const bool reduces : {false, true}) {
    if (reduces)
      InitialWeightsSet(&tuned, "exchange.all_reduce={backend: GLOO}");
    for (const int workers : {1, 2, 4}) {
      SCOPED_TRACE(absl::StrCat(reduces ? "all-reduce " : "servers ", workers));
      const std::string run = InitialWeightsDirectory(
          absl::StrCat(workers, reduces ? "-reduced" : ""));
      ASSERT_EQ(Train(tuned, workers, /*servers=*/reduces ? 1 : 2, run),
                absl::OkStatus());
      const auto model = ModelOf(run);
      for (const auto& [name, tensor] : model) {
        if (absl::StartsWith(name, "hidden.")) {
          EXPECT_EQ(tensor.values, initial.at(name).values) << name;
        } else {
          EXPECT_NE(tensor.values, initial.at(name).values) << name;
        }
        if (expected.count(name) > 0) {
          EXPECT_EQ(tensor.values, expected[name].values) << name;
        }
      }
      expected = model;
    }
  }
}

TEST(InitialWeightsTest, AJobWhoseWeightsCannotBeReadFails) {
  JobSpec job = TinyJob("mlp", InitialWeightsDirectory("data"));
  InitialWeightsSet(&job, "model.initial_weights.path=/none");
  EXPECT_THAT(
      Train(job, /*workers=*/1, /*servers=*/1, InitialWeightsDirectory("run")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("/none: contains no weights")));
}

}  // namespace
}  // namespace tributary
