#include "worker/training/micro_batch_memory.h"

#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 100 -> 50 -> 10: 5,560 weights, in parameters whose sizes are rounded up.
constexpr int64_t kWeights = 100 * 50 + 50 + 50 * 10 + 10;

JobSpec Job(int64_t batch) {
  JobSpec job;
  job.mutable_model()->mutable_mlp()->add_hidden(50);
  job.mutable_batch()->set_global(batch);
  job.mutable_batch()->set_micro_batches(1);
  return job;
}

MicroBatchMemoryInputs Question(const JobSpec& job, bool evaluates = false) {
  DataInfo info;
  info.kind = DataInfo::Kind::kRows;
  info.sample_shape = {100};
  info.classes = 10;
  return {job, info, evaluates};
}

class MicroBatchMemoryTest : public testing::Test {
 protected:
  MicroBatchMemory Plan(const MicroBatchMemoryInputs& question, int64_t count,
                        const Device& device) {
    const absl::StatusOr<MicroBatchMemory> memory =
        PlanMicroBatchMemory(question, count, device);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.value_or(MicroBatchMemory());
  }

  const std::unique_ptr<Device> cpu_ = CreateCpuDevice();
  const std::unique_ptr<Device> gpu_ = *CreateCudaDevice(0);
};

TEST_F(MicroBatchMemoryTest, IsWhatAModelTakes) {
  const JobSpec job = Job(64);
  const MicroBatchMemory memory = Plan(Question(job), 4, *cpu_);
  const auto model = CreateModel(job.model(), Question(job).info,
                                 /*max_samples=*/16, cpu_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(memory.activations, (*model)->memory_bytes());
  EXPECT_GE(memory.gradients, kWeights * 4);
  EXPECT_LT(memory.gradients, kWeights * 4 + 4096);
  // The exchange's, on a host.
  EXPECT_EQ(memory.weights, 0);
  EXPECT_EQ(memory.working, 0);
}

TEST_F(MicroBatchMemoryTest, IsWhatAModelTakesInBfloat16) {
  const JobSpec job = Job(64);
  const std::unique_ptr<Device> device = CreateCpuDevice(Precision::kBfloat16);
  const MicroBatchMemory memory = Plan(Question(job), 4, *device);
  const auto model = CreateModel(job.model(), Question(job).info,
                                 /*max_samples=*/16, device.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(memory.activations, (*model)->memory_bytes());
  // With copies of the weights but the biases.
  EXPECT_GT(memory.activations, 2 * (100 * 50 + 50 * 10));
}

TEST_F(MicroBatchMemoryTest, CountsWeightsInMemoryOfADevice) {
  const JobSpec job = Job(64);
  const MicroBatchMemory memory = Plan(Question(job), 4, *gpu_);
  EXPECT_EQ(memory.weights, memory.gradients);
  EXPECT_GT(memory.working, 0);
}

TEST_F(MicroBatchMemoryTest, CountsTheNextMicroBatchInMemoryOfADevice) {
  const JobSpec job = Job(64);
  const MicroBatchMemory memory = Plan(Question(job), 4, *gpu_);
  const auto model = CreateModel(job.model(), Question(job).info,
                                 /*max_samples=*/16, gpu_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(memory.activations, (*model)->memory_bytes());
  // 16 samples, and their labels.
  EXPECT_EQ(memory.activations,
            Plan(Question(job), 4, *cpu_).activations + 16 * 101 * 4);
}

TEST_F(MicroBatchMemoryTest,
       PlansForTheLargerOfMicroBatchAndPieceOfEvaluation) {
  JobSpec job = Job(64);
  EXPECT_EQ(MostSamples(Question(job), 2), 32);
  EXPECT_EQ(MostSamples(Question(job), 16), 4);
  EXPECT_EQ(MostSamples(Question(job, /*evaluates=*/true), 16), 16);
  // As ResolveJob derives it from one micro-batch.
  job.mutable_evaluation()->set_batch(64);
  EXPECT_EQ(MostSamples(Question(job, /*evaluates=*/true), 2), 32);
  // A person's.
  job.mutable_evaluation()->set_batch(100);
  EXPECT_EQ(MostSamples(Question(job, /*evaluates=*/true), 2), 100);
}

TEST_F(MicroBatchMemoryTest, FindsTheFewestMicroBatchesThatFit) {
  const JobSpec job = Job(96);  // Into 32 parts at most.
  const MicroBatchMemoryInputs question = Question(job);
  const auto find = [&](int64_t fewest, int64_t bytes) {
    return FindMicroBatches(question, fewest, bytes, *cpu_).value_or(-1);
  };
  for (const int64_t count : {1, 2, 8, 32}) {
    const int64_t bytes = Plan(question, count, *cpu_).total();
    EXPECT_EQ(find(1, bytes), count);
    EXPECT_EQ(find(1, bytes - 1), count == 32 ? 0 : 2 * count);
  }
  EXPECT_EQ(find(3, int64_t{1} << 40), 4);
}

TEST_F(MicroBatchMemoryTest, ExplainsWhatIsMissingAndWhatWouldFit) {
  JobSpec job = Job(96);
  job.mutable_batch()->set_micro_batches(2);
  const MicroBatchMemoryInputs question = Question(job);
  const MicroBatchMemory needed = Plan(question, 2, *gpu_);
  const int64_t there = Plan(question, 8, *gpu_).total();
  EXPECT_THAT(ExplainMicroBatchMemory(question, needed, there, *gpu_),
              AllOf(HasSubstr("a micro-batch of 48 samples"),
                    HasSubstr("weights "), HasSubstr("gradients "),
                    HasSubstr("activations "), HasSubstr("working memory "),
                    HasSubstr("Set batch.micro_batches to 8: a micro-batch of "
                              "12 samples fits")));
  EXPECT_THAT(ExplainMicroBatchMemory(question, needed, 1000, *gpu_),
              AllOf(HasSubstr("; 1000 bytes are free"),
                    HasSubstr("No number of batch.micro_batches fits")));
}

}  // namespace
}  // namespace tributary
