#include "deploy/launch/plan/memory_fit.h"

#include <memory>
#include <string>

#include "common/job/job.h"
#include "common/plan/memory_account.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/device/device.h"

namespace tributary {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kPlenty = int64_t{1} << 40;

class MemoryFitTest : public testing::Test {
 protected:
  FitInputs Inputs(const std::string& model) {
    const absl::StatusOr<JobSpec> job =
        ParseJob("name: 'fit'\n" + model +
                     "optimizer { adamw { learning_rate: 0.1 } }\n"
                     "batch { global: 64 micro_batches: 4 }\nsteps: 1\n",
                 "job");
    EXPECT_TRUE(job.ok()) << job.status();
    FitInputs inputs;
    inputs.job = ResolveJob(*job);
    inputs.workers = 2;
    inputs.threads = 2;
    inputs.host_bytes = kPlenty;
    return inputs;
  }
  // Most memory is for activations, or for weights.
  FitInputs Wide() {
    return Inputs(
        "model { gpt { layers: 4 width: 64 context: 256 } }\n"
        "data { random {} }\n");
  }
  FitInputs Deep() {
    return Inputs(
        "model { mlp { hidden: 1024 hidden: 1024 hidden: 1024 hidden: 1024 } "
        "}\ndata { random { shape: 1024 } }\n");
  }

  absl::StatusOr<JobFit> Fit(const FitInputs& inputs) {
    return FitJob(inputs, device_.get(), sources_);
  }
  // Returns the fit with a part of the memory that the job needs.
  absl::StatusOr<JobFit> FitInto(double part, FitInputs inputs) {
    const absl::StatusOr<JobFit> whole = Fit(inputs);
    EXPECT_TRUE(whole.ok()) << whole.status();
    inputs.host_bytes =
        static_cast<int64_t>(part * static_cast<double>(whole->needed_bytes));
    return Fit(inputs);
  }

  const std::unique_ptr<Device> device_ = CreateCpuDevice(Precision::kFloat32);
  const TrainingSources sources_;
};

TEST_F(MemoryFitTest, AJobThatFitsIsNotChanged) {
  const FitInputs inputs = Wide();
  const absl::StatusOr<JobFit> fit = Fit(inputs);
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_THAT(fit->changes, IsEmpty());
  EXPECT_EQ(PrintJob(fit->job), PrintJob(inputs.job));
  EXPECT_EQ(fit->workers, 2);
  EXPECT_EQ(fit->threads, 2);
}

TEST_F(MemoryFitTest, MoreMicroBatchesComeFirst) {
  const absl::StatusOr<JobFit> fit = FitInto(0.8, Wide());
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_THAT(fit->changes, ElementsAre(HasSubstr("batch.micro_batches=")));
  EXPECT_GT(fit->job.batch().micro_batches(), 4);
  EXPECT_LT(fit->needed_bytes, fit->available_bytes);
}

TEST_F(MemoryFitTest, ShardedWeightsSaveGradients) {
  const absl::StatusOr<JobFit> fit = FitInto(0.78, Deep());
  ASSERT_TRUE(fit.ok()) << fit.status();
  EXPECT_THAT(fit->changes, Contains("--set parallel.sharded_weights=true"));
  EXPECT_TRUE(fit->job.parallel().sharded_weights());
  EXPECT_TRUE(ValidateJob(fit->job).ok());
}

TEST_F(MemoryFitTest, LessThanTheOptimizersStateIsTooLittle) {
  const absl::StatusOr<JobFit> fit = FitInto(0.2, Deep());
  EXPECT_THAT(fit, StatusIs(absl::StatusCode::kResourceExhausted,
                            HasSubstr("optimizer")));
}

TEST_F(MemoryFitTest, TheAddressSpaceIsALimitToo) {
  FitInputs inputs = Wide();
  inputs.process_bytes = kPlenty;
  EXPECT_TRUE(Fit(inputs).ok());
  inputs.process_bytes = 1 << 30;
  EXPECT_THAT(Fit(inputs), StatusIs(absl::StatusCode::kResourceExhausted,
                                    HasSubstr("ulimit -v")));
}

TEST_F(MemoryFitTest, OneProcessNeedsOneProgram) {
  FitInputs inputs = Wide();
  const absl::StatusOr<JobFit> apart = Fit(inputs);
  inputs.one_process = true;
  const absl::StatusOr<JobFit> together = Fit(inputs);
  ASSERT_TRUE(apart.ok() && together.ok());
  EXPECT_LT(together->needed_bytes, apart->needed_bytes);
}

}  // namespace
}  // namespace tributary
