// NaN and infinite gradients, caused by a learning rate that is far too high.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"
#include "tests/support/local_cluster.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

class NonfiniteTest : public testing::TestWithParam<const char*> {
 protected:
  // Returns a job whose activations overflow after a few steps.
  JobSpec Job(JobSpec::OnNonfinite on_nonfinite) {
    JobSpec job = TinyJob("mlp", folder_);
    job.set_steps(12);
    job.mutable_optimizer()->mutable_sgd()->set_learning_rate(1e6);
    job.mutable_optimizer()->mutable_sgd()->set_weight_decay(0);
    job.set_on_nonfinite(on_nonfinite);
    job.clear_evaluation();
    job.mutable_evaluation()->set_disabled(true);
    if (std::string(GetParam()) == "asynchronous") {
      job.mutable_exchange()
          ->mutable_parameter_server()
          ->mutable_consistency()
          ->mutable_asynchronous();
    }
    return job;
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_P(NonfiniteTest, StopsAndNamesStepWorkerAndParameter) {
  LocalCluster cluster(Job(JobSpec::STOP), /*servers=*/2,
                       /*expected_workers=*/1, folder_ + "/out");
  cluster.StartWorker();
  const std::string message(cluster.Await().message());
  EXPECT_THAT(message, HasSubstr("the gradient of "));
  EXPECT_THAT(message, HasSubstr("from worker 0 (host "));
  EXPECT_THAT(message, HasSubstr("on_nonfinite: SKIP"));
}

TEST_P(NonfiniteTest, SkipsTheSameStepsOnEveryServer) {
  std::string digest;
  for (const int servers : {1, 3}) {
    const int workers = std::string(GetParam()) == "asynchronous" ? 1 : servers;
    const std::string output = folder_ + "/" + std::to_string(servers);
    LocalCluster cluster(Job(JobSpec::SKIP), servers, workers, output);
    for (int i = 0; i < workers; ++i) cluster.StartWorker();
    ASSERT_EQ(cluster.Await(), absl::OkStatus());
    const auto summary = cluster.Summary();
    EXPECT_EQ(summary.value("steps", 0), 12);
    EXPECT_GE(summary.value("skipped_steps", 0), 5);
    const std::string metrics = ReadWholeFile(output + "/metrics.jsonl");
    EXPECT_THAT(metrics, HasSubstr("\"skipped\":\"gradient is not finite\","
                                   "\"parameter\":\""));
    if (digest.empty()) digest = summary.value("weights_sha256", "");
    EXPECT_EQ(summary.value("weights_sha256", ""), digest);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, NonfiniteTest,
                         testing::Values("synchronous", "asynchronous"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

}  // namespace
}  // namespace tributary
