// The conformance suite on common/update/cuda, emulated on the CPU. The threads
// of a block run in several orders: a kernel that lacks a barrier fails in one
// of them. The GPU's work runs as late as it may, so that a pass that lacks a
// wait fails too. The GPU is the second one, which no thread uses by accident.
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/buffer_pool.h"
#include "common/cuda/stream.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/update/chunk_weights.h"
#include "common/update/cuda/cuda_passes.h"
#include "common/update/device_share.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/update/chunk_pass_conformance.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/device/cuda/emulation/emulated_failures.h"
#include "tests/worker/device/cuda/emulation/emulated_gpu.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ChunkPassKind Emulated(const char* name, emulated_gpu::ThreadOrder order) {
  return {name, [order](const ChunkPassPlan& plan) {
            emulated_gpu::SetThreadOrder(order);
            return MakeCudaPasses(/*ordinal=*/1, /*pass_streams=*/2, plan);
          }};
}

class CudaPassMemoryTest : public testing::Test {
 protected:
  CudaPassMemoryTest() {
    ParameterTable table;
    table.set_chunk_elements(1024);
    table.add_parameter()->set_name("p");
    table.mutable_parameter(0)->add_shape(3 * 1024);
    table.mutable_parameter(0)->set_group(DECAY);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    job_.mutable_batch()->set_micro_batches(4);
    job_.mutable_optimizer()->mutable_adamw()->set_learning_rate(1);
    optimizer_ = *Optimizer::Create(job_.optimizer());
  }
  ~CudaPassMemoryTest() override {
    emulated_gpu::SetMemoryBytes(size_t{1} << 40);
  }

  absl::StatusOr<ChunkPasses> Make(int ordinal = 0) {
    return MakeCudaPasses(ordinal, /*pass_streams=*/2,
                          {&job_, layout_.get(), {0, 1, 2}, optimizer_.get()});
  }

  JobSpec job_;
  std::unique_ptr<ArenaLayout> layout_;
  std::unique_ptr<Optimizer> optimizer_;
};

TEST_F(CudaPassMemoryTest, AFullGpuSaysWhatTakesHowMuch) {
  emulated_gpu::SetMemoryBytes(40000);
  const absl::Status status = Make().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  // 12 KB of weights, twice that of state, 3 chunks and more for each thread.
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("cuda:0 has no memory"),
                    HasSubstr("optimizer state 0.0 MB"),
                    HasSubstr("working memory of 2 threads"),
                    HasSubstr("0.0 MB of 0.0 MB are free")));
}

TEST_F(CudaPassMemoryTest, GivesItsMemoryBack) {
  const size_t free = emulated_gpu::FreeMemoryBytes();
  {
    const absl::StatusOr<ChunkPasses> made = Make();
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_LT(emulated_gpu::FreeMemoryBytes(), free);
  }
  EXPECT_EQ(emulated_gpu::FreeMemoryBytes(), free);
}

TEST_F(CudaPassMemoryTest, KeepsToItsGpu) {
  emulated_gpu::DestroyContext(0);
  ChunkPasses made;
  Buffer buffer;
  // On threads that have not used CUDA.
  std::thread([&] {
    made = *Make(/*ordinal=*/1);
    buffer = made.host_buffer();
  }).join();
  EXPECT_NE(buffer, nullptr);
  std::thread([&] { buffer = nullptr; }).join();
  std::thread([&] { made = ChunkPasses(); }).join();
  EXPECT_FALSE(emulated_gpu::HasContext(0));
}

// Fails in each of the GPU's functions that a pass calls. No pass after it runs
// on the stream that has failed.
TEST_F(CudaPassMemoryTest, AnErrorOfTheGpuIsTheErrorOfThePass) {
  struct Case {
    emulated_gpu::Failing failing;
    const char* operation;
    const char* error;
  };
  for (const Case& c : {Case{emulated_gpu::Failing::kLaunch, "SumSquares",
                             "cudaErrorLaunchOutOfResources"},
                        Case{emulated_gpu::Failing::kCopy, "copying to the GPU",
                             "cudaErrorIllegalAddress"},
                        Case{emulated_gpu::Failing::kWait, "on cuda:0",
                             "cudaErrorLaunchFailure"}}) {
    SCOPED_TRACE(c.operation);
    const absl::StatusOr<ChunkPasses> made = Make();
    ASSERT_TRUE(made.ok()) << made.status();
    std::vector<float> gradient(1024, 1);
    NodeSum node;
    node.gradient =
        std::make_shared<GradientInMemory>(MemoryView{gradient.data()});
    ChunkAggregator aggregator(/*leaves=*/1, ExchangeSpec::FLOAT32);
    aggregator.Add(std::move(node));
    const TreeSum sum = aggregator.Take();
    emulated_gpu::FailNext(c.failing);
    const absl::Status first = made->passes[0]->SumOfSquares(sum).status();
    emulated_gpu::StopFailing();
    EXPECT_THAT(first,
                StatusIs(absl::StatusCode::kInternal,
                         AllOf(HasSubstr(c.operation), HasSubstr("on cuda:0"),
                               HasSubstr(c.error))));
    EXPECT_EQ(made->passes[1]->SumOfSquares(sum).status(), first);
  }
}

// The same launch also sums the squares.
TEST_F(CudaPassMemoryTest, OneLaunchUpdatesAllChunksOfAGroup) {
  const absl::StatusOr<ChunkPasses> made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  BufferPool buffers(1024), halves(512);
  const ExchangeSpec exchange;
  std::vector<float> gradient(1024, 1);
  std::vector<TreeSum> sums;
  std::vector<std::unique_ptr<ChunkWeights>> weights;
  std::vector<ChunkWeights::Next> next;
  std::vector<ChunkPass::Arguments> arguments(3);
  for (int chunk = 0; chunk < 3; ++chunk) {
    NodeSum node;
    node.gradient =
        std::make_shared<GradientInMemory>(MemoryView{gradient.data()});
    ChunkAggregator aggregator(/*leaves=*/1, ExchangeSpec::FLOAT32);
    aggregator.Add(std::move(node));
    sums.push_back(aggregator.Take());
    weights.push_back(std::make_unique<ChunkWeights>(&exchange, /*elements=*/
                                                     1024, &buffers, &halves));
    Buffer initial = buffers.Take();
    std::fill_n(initial.get(), 1024, 0.f);
    weights.back()->Initialize(/*version=*/0, std::move(initial));
    next.push_back(weights.back()->Begin(/*for_streams=*/false));
  }
  std::vector<ChunkPassGroup::SumItem> sum_items;
  std::vector<ChunkPassGroup::RunItem> run_items;
  for (int chunk = 0; chunk < 3; ++chunk) {
    sum_items.push_back({made->passes[chunk].get(), &sums[chunk]});
    arguments[chunk].sum = &sums[chunk];
    arguments[chunk].next = &next[chunk];
    run_items.push_back({made->passes[chunk].get(), &arguments[chunk]});
  }
  const std::vector<double> squares(3, 1024);
  emulated_gpu::Calls before = emulated_gpu::CountCalls();
  EXPECT_EQ(*made->group->SumOfSquares(sum_items), squares);
  EXPECT_EQ((emulated_gpu::CountCalls() - before).launches, 1);
  before = emulated_gpu::CountCalls();
  EXPECT_EQ(*made->group->Run(run_items), squares);
  EXPECT_EQ((emulated_gpu::CountCalls() - before).launches, 1);
}

TEST_F(CudaPassMemoryTest, AnAllocationThatFailsIsAnErrorOfTheStart) {
  job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  emulated_gpu::FailNext(emulated_gpu::Failing::kAllocation);
  const absl::Status status = Make().status();
  emulated_gpu::StopFailing();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                               HasSubstr("cuda:0 has no memory")));
}

TEST_F(CudaPassMemoryTest, SharesItsWeightsOnlyWithWorkersThatReadThemThere) {
  EXPECT_NE(Make()->share, nullptr);
  job_.mutable_exchange()->set_wire_dtype(ExchangeSpec::BFLOAT16);
  EXPECT_EQ(Make()->share, nullptr);
  job_.mutable_exchange()->clear_wire_dtype();
  job_.mutable_exchange()->set_transport(ExchangeSpec::UNIX_SOCKET);
  EXPECT_EQ(Make()->share, nullptr);
}

TEST_F(CudaPassMemoryTest, WithoutMemoryToShareItWorksWithout) {
  emulated_gpu::FailNext(emulated_gpu::Failing::kAllocation);
  const absl::StatusOr<ChunkPasses> made = Make();
  emulated_gpu::StopFailing();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->share, nullptr);
}

// Two contributions, of which one is added in place and the other is copied
// first, as on the host; each step on the device and on the host alike.
TEST_F(CudaPassMemoryTest, UpdatesOnTheDeviceAloneHaveTheSameBits) {
  const absl::StatusOr<ChunkPasses> device = Make(), host = Make();
  ASSERT_TRUE(device.ok() && host.ok());
  const ExchangeSpec exchange;
  BufferPool buffers(1024), halves(512);
  ChunkWeights on_device(&exchange, 1024, &buffers, &halves);
  ChunkWeights on_host(&exchange, 1024, &buffers, &halves);
  Buffer initial = buffers.Take();
  for (int i = 0; i < 1024; ++i) initial.get()[i] = 1.0f / (1 + i);
  EXPECT_TRUE(device->passes[1]->Place(/*version=*/0, initial.get()).ok());
  on_device.Initialize(0, initial);
  on_host.Initialize(0, initial);
  on_device.SetFetch([&](int64_t version, float* to) {
    return device->passes[1]->Fetch(version, to);
  });
  const DeviceShare::Gradients gradients =
      *device->share->AllocateGradients(2048);
  const std::unique_ptr<cuda::Stream> stream = *cuda::Stream::Create(0);
  for (int64_t step = 0; step < 3; ++step) {
    for (const int sources : {1, 2}) {
      if (sources == 2 && step < 2) continue;
      std::vector<float> values(2048);
      for (int i = 0; i < 2048; ++i) {
        values[i] = 0.37f * static_cast<float>(i % 13 - 5 + step);
      }
      stream->Activate();
      cudaMemcpyAsync(const_cast<float*>(gradients.memory.get()), values.data(),
                      2048 * sizeof(float), cudaMemcpyHostToDevice,
                      stream->get());
      EXPECT_TRUE(stream->Wait().ok());
      const auto sum_of = [&](bool there) {
        ChunkAggregator aggregator(/*leaves=*/sources, ExchangeSpec::FLOAT32);
        for (int leaf = 0; leaf < sources; ++leaf) {
          NodeSum node;
          node.node = sources + leaf;
          if (there) {
            node.gradient = std::make_shared<GradientOnDevice>(
                gradients.memory.get() + 1024 * leaf, gradients.memory,
                device->share);
          } else {
            node.gradient = std::make_shared<GradientInMemory>(
                MemoryView{values.data() + 1024 * leaf});
          }
          aggregator.Add(std::move(node));
        }
        return aggregator.Take();
      };
      const auto run = [&](const ChunkPasses& passes, ChunkWeights* weights,
                           bool there) {
        const TreeSum sum = sum_of(there);
        ChunkWeights::Next next = weights->Begin(/*for_streams=*/false);
        if (there) next.place = MemoryPlace::kDevice;
        ChunkPass::Arguments arguments;
        arguments.sum = &sum;
        arguments.step.number = weights->version();
        arguments.step.learning_rate = 0.01;
        arguments.next = &next;
        arguments.skip = step == 1;
        const double squares = *passes.passes[1]->Run(arguments);
        weights->Finish(std::move(next));
        return squares;
      };
      const emulated_gpu::Calls before = emulated_gpu::CountCalls();
      const double squares = run(*device, &on_device, /*there=*/true);
      const emulated_gpu::Calls calls = emulated_gpu::CountCalls() - before;
      EXPECT_EQ(calls.copies_to_device, 0);
      EXPECT_EQ(calls.copies_to_host, 1) << "the sums of squares";
      EXPECT_EQ(run(*host, &on_host, /*there=*/false), squares);
      const auto bits = [](ChunkWeights* weights) {
        const float* const newest =
            static_cast<const float*>(weights->Exact(weights->version()).data);
        return std::vector<float>(newest, newest + 1024);
      };
      EXPECT_EQ(bits(&on_device), bits(&on_host)) << "step " << step;
    }
  }
}

TEST_F(CudaPassMemoryTest, TheHostReadsAGradientOnTheDevice) {
  const absl::StatusOr<ChunkPasses> made = Make();
  ASSERT_TRUE(made.ok()) << made.status();
  const DeviceShare::Gradients gradients =
      *made->share->AllocateGradients(1024);
  const GradientOnDevice gradient(gradients.memory.get(), gradients.memory,
                                  made->share);
  std::vector<float> values(4, 7.0f);
  EXPECT_EQ(gradient.Read(/*begin=*/1020, /*count=*/4, values.data()),
            values.data());
  EXPECT_EQ(values, std::vector<float>(4, 0.0f));
}

TEST_F(CudaPassMemoryTest, RefusesGpusThatThereAreNot) {
  EXPECT_TRUE(CheckCudaPasses(0).ok());
  EXPECT_TRUE(absl::IsNotFound(CheckCudaPasses(emulated_gpu::kDevices)));
  EXPECT_TRUE(absl::IsNotFound(CheckCudaPasses(-1)));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(
    EmulatedCuda, ChunkPassConformanceTest,
    testing::Values(Emulated("cuda, threads in descending order",
                             emulated_gpu::ThreadOrder::kDescending),
                    Emulated("cuda, threads in random order",
                             emulated_gpu::ThreadOrder::kRandom)));

}  // namespace tributary
