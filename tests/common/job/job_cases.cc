#include "tests/common/job/job_cases.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

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

JobSpec Dlrm() {
  JobSpec job = Mlp();
  job.mutable_model()->mutable_dlrm();
  job.mutable_data()->mutable_csv()->set_train("train.csv");
  for (const auto& [name, dim] : {std::pair("wide", 4), {"narrow", 1}}) {
    SparseTableSpec* const table = job.mutable_sparse()->add_table();
    table->set_name(name);
    table->set_dim(dim);
    table->mutable_row_wise_adagrad()->set_learning_rate(0.01);
  }
  for (const char* const column : {"C1", "C2"}) {
    SparseFeatureSpec* const feature = job.mutable_sparse()->add_feature();
    feature->set_column(column);
    feature->set_table("wide");
  }
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

JobSpec Apply(JobSpec (*base)(), const std::string& changes) {
  JobSpec job = base();
  for (absl::string_view change :
       absl::StrSplit(changes, "; ", absl::SkipEmpty())) {
    EXPECT_EQ(SetField(&job, std::string(change)), absl::OkStatus());
  }
  return job;
}

void ExpectAccepted(JobSpec (*base)(), const std::vector<std::string>& cases) {
  for (const std::string& changes : cases) {
    const JobSpec job = Apply(base, changes);
    EXPECT_EQ(ValidateJob(job), absl::OkStatus()) << changes;
    EXPECT_EQ(ValidateJob(ResolveJob(job)), absl::OkStatus()) << changes;
  }
}

void ExpectRefused(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    EXPECT_THAT(ValidateJob(Apply(c.base, c.changes)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         testing::StartsWith(c.message)))
        << c.changes;
  }
}

void ExpectFieldsRefused(JobSpec (*base)(),
                         const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments) {
    const std::pair<std::string, std::string> field =
        absl::StrSplit(assignment, absl::MaxSplits('=', 1));
    ExpectRefused({{base, assignment, field.first + ": "}});
  }
}

void ExpectValuesRefused(JobSpec (*base)(),
                         const std::vector<std::string>& assignments) {
  for (const std::string& assignment : assignments) {
    const std::pair<std::string, std::string> field =
        absl::StrSplit(assignment, absl::MaxSplits('=', 1));
    ExpectRefused({{base, assignment,
                    absl::StrCat(field.first, ": ", field.second, " ")}});
  }
}

}  // namespace tributary
