// The optimizer of a process that trains alone on a GPU, on the emulated GPU.
#include "deploy/tools/bench/gpu_optimizer.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "cuda_runtime.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr int kDevice = 1;

// An arena in the GPU's memory.
class Arena {
 public:
  explicit Arena(const std::vector<float>& values) : count_(values.size()) {
    Copy([&](cudaStream_t stream) {
      EXPECT_EQ(cudaMalloc(&memory_, bytes()), cudaSuccess);
      return cudaMemcpyAsync(memory_, values.data(), bytes(),
                             cudaMemcpyHostToDevice, stream);
    });
  }
  ~Arena() { cudaFree(memory_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  float* get() const { return static_cast<float*>(memory_); }
  std::vector<float> Download() const {
    std::vector<float> values(count_);
    Copy([&](cudaStream_t stream) {
      return cudaMemcpyAsync(values.data(), memory_, bytes(),
                             cudaMemcpyDeviceToHost, stream);
    });
    return values;
  }

 private:
  size_t bytes() const { return count_ * sizeof(float); }

  template <typename Work>
  static void Copy(const Work& work) {
    ASSERT_EQ(cudaSetDevice(kDevice), cudaSuccess);
    cudaStream_t stream;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
    EXPECT_EQ(work(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }

  const size_t count_;
  void* memory_ = nullptr;
};

TEST(GpuOptimizerTest, UpdatesAllWeightsLikeTheCpu) {
  ParameterTable table;
  table.set_chunk_elements(1024);
  for (const OptimizerGroup group : {DECAY, NO_DECAY, STATISTICS}) {
    ParameterTable::Parameter* const parameter = table.add_parameter();
    parameter->set_name(OptimizerGroup_Name(group));
    parameter->add_shape(1001);
    parameter->set_group(group);
  }
  const ArenaLayout layout = *ArenaLayout::Create(table);
  OptimizerSpec spec;
  spec.mutable_adamw()->set_learning_rate(0.1);
  spec.mutable_adamw()->set_weight_decay(0.1);
  const std::unique_ptr<Optimizer> optimizer = *Optimizer::Create(spec);
  const int64_t count = layout.arena_elements();
  std::vector<float> weights(count), first(count), second(count), sum(count);
  // Gaps between parameters are 0.
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    for (const ChunkSegment& segment : layout.ChunkSegments(chunk)) {
      for (int64_t i = segment.begin; i < segment.end; ++i) {
        const int64_t at = layout.ChunkBegin(chunk) + i;
        weights[at] = std::sin(static_cast<float>(at));
        first[at] = std::cos(static_cast<float>(at));
        second[at] = 0.25f * weights[at];
        sum[at] = first[at] + second[at];
      }
    }
  }

  auto on_gpu = CreateGpuOptimizer(kDevice, layout, optimizer.get());
  ASSERT_TRUE(on_gpu.ok()) << on_gpu.status();
  const Arena one(weights), other(weights);
  std::vector<std::vector<float>> slots(optimizer->slots(),
                                        std::vector<float>(count));
  for (int number = 0; number < 2; ++number) {
    UpdateStep step;
    step.gradient_scale = 0.5f;
    step.statistics_scale = 0.25f;
    step.learning_rate = 0.1;
    step.number = number;
    const Arena gradient(first), other_gradient(second);
    EXPECT_EQ((*on_gpu)->Update(step, {gradient.get(), other_gradient.get()},
                                {one.get(), other.get()}),
              absl::OkStatus());
    std::vector<float> updated(count);
    for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
      const int64_t begin = layout.ChunkBegin(chunk);
      const std::vector<ChunkSegment> segments = layout.ChunkSegments(chunk);
      std::vector<float*> slots_of_chunk;
      for (std::vector<float>& slot : slots) {
        slots_of_chunk.push_back(slot.data() + begin);
      }
      UpdateArguments update;
      update.gradient_sum = sum.data() + begin;
      update.weights = weights.data() + begin;
      update.new_weights = updated.data() + begin;
      update.slots = slots_of_chunk;
      update.segments = segments;
      optimizer->At(step).Update(update);
    }
    weights = updated;
    EXPECT_EQ(one.Download(), weights);
    EXPECT_EQ(other.Download(), weights);
  }
}

TEST(GpuOptimizerTest, SaysThatTheGpuIsFull) {
  ParameterTable table;
  table.set_chunk_elements(1024);
  table.add_parameter()->set_name("p");
  table.mutable_parameter(0)->add_shape(100000);
  table.mutable_parameter(0)->set_group(DECAY);
  OptimizerSpec spec;
  spec.mutable_adamw()->set_learning_rate(0.1);
  const std::unique_ptr<Optimizer> optimizer = *Optimizer::Create(spec);
  emulated_gpu::SetMemoryBytes(1000);
  const absl::Status status =
      CreateGpuOptimizer(kDevice, *ArenaLayout::Create(table), optimizer.get())
          .status();
  emulated_gpu::SetMemoryBytes(size_t{1} << 40);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

}  // namespace
}  // namespace tributary
