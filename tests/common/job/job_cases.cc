#include "tests/common/job/job_cases.h"

#include "absl/status/status.h"
#include "absl/strings/str_join.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {

JobSpec Mlp() {
  return *ParseJob(R"(
    model { mlp { hidden: [64, 32] } }
    data { idx { directory: "digits" } }
    batch { global: 24 }
    optimizer { sgd { learning_rate: 0.1 } }
    steps: 100)",
                   "job");
}

JobSpec Resnet() {
  JobSpec job = Mlp();
  job.mutable_model()->mutable_resnet();
  return job;
}

JobSpec Cnn() {
  JobSpec job = Mlp();
  job.mutable_model()->mutable_cnn()->add_block()->set_channels(8);
  job.mutable_model()->mutable_cnn()->add_block()->set_channels(16);
  return job;
}

JobSpec Gpt() {
  JobSpec job = Mlp();
  job.mutable_model()->mutable_gpt();
  job.mutable_data()->mutable_text()->add_path("a.txt");
  AdamSpec* adamw = job.mutable_optimizer()->mutable_adamw();
  adamw->set_learning_rate(0.001);
  adamw->set_weight_decay(0.1);
  return job;
}

JobSpec Bert() {
  JobSpec job = Mlp();
  job.mutable_model()->mutable_bert();
  job.mutable_data()->mutable_random();
  return job;
}

JobSpec Regression() {
  JobSpec job = Mlp();
  job.mutable_data()->mutable_csv()->set_train("train.csv");
  job.mutable_model()->set_loss(ModelSpec::MEAN_SQUARED_ERROR);
  return job;
}

JobSpec Synthetic() {
  JobSpec job = Mlp();
  job.mutable_model()->mutable_synthetic()->set_parameters(1000);
  job.mutable_data()->mutable_random();
  return job;
}

JobSpec External() {
  JobSpec job = Mlp();
  ExternalModelSpec* const model = job.mutable_model()->mutable_external();
  model->set_name("factorization");
  model->set_config("{\"rank\": 8}");
  job.mutable_data()->mutable_external()->set_train_samples(1000);
  return job;
}

JobSpec Apply(const Case& c) {
  JobSpec job = c.base();
  for (const std::string& change : c.changes) {
    const absl::Status status = SetField(&job, change);
    EXPECT_TRUE(status.ok()) << status;
  }
  return job;
}

void ExpectRefused(const Case& c) {
  const absl::Status status = ValidateJob(Apply(c));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument)
      << absl::StrJoin(c.changes, " ");
  EXPECT_THAT(std::string(status.message()), testing::StartsWith(c.message))
      << absl::StrJoin(c.changes, " ");
}

}  // namespace tributary
