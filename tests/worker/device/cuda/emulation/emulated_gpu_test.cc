#include "tests/worker/device/cuda/emulation/emulated_gpu.h"

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace emulated_gpu {
namespace {

constexpr int kThreads = 64;

// reversed[i] = the number of thread kThreads - 1 - i.
void Reverse(int* reversed, bool synchronizes) {
  __shared__ int numbers[kThreads];
  BeginShared(&numbers, sizeof(numbers));
  const int thread = static_cast<int>(::threadIdx.x);
  numbers[thread] = thread;
  if (synchronizes) __syncthreads();
  reversed[thread] = numbers[kThreads - 1 - thread];
}

std::vector<int> Reversed(ThreadOrder order, bool synchronizes) {
  SetThreadOrder(order);
  std::vector<int> reversed(kThreads);
  emulated_gpu::Run(1, kThreads,
                    [&] { Reverse(reversed.data(), synchronizes); });
  SetThreadOrder(ThreadOrder::kAscending);
  return reversed;
}

TEST(EmulatedGpuTest, BarriersOrderThreads) {
  std::vector<int> expected(kThreads);
  for (int i = 0; i < kThreads; ++i) expected[i] = kThreads - 1 - i;
  for (const ThreadOrder order :
       {ThreadOrder::kAscending, ThreadOrder::kDescending,
        ThreadOrder::kRandom}) {
    EXPECT_EQ(Reversed(order, /*synchronizes=*/true), expected);
  }
}

#if defined(__SANITIZE_THREAD__)
TEST(EmulatedGpuDeathTest, AMissingBarrierIsADataRace) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(Reversed(ThreadOrder::kAscending, /*synchronizes=*/false),
               "data race");
}
#else
TEST(EmulatedGpuTest, AMissingBarrierChangesResults) {
  for (const ThreadOrder order :
       {ThreadOrder::kAscending, ThreadOrder::kDescending,
        ThreadOrder::kRandom}) {
    const std::vector<int> reversed = Reversed(order, /*synchronizes=*/false);
    // Read before it was written: full of NaN, as floats.
    EXPECT_THAT(reversed, testing::Contains(-1));
  }
}
#endif

// Each block reads what the one before has left.
void KeepInShared(float* kept) {
  __shared__ float value;
  BeginShared(&value, sizeof(value));
  kept[::blockIdx.x] = value;
  value = 1;
}

TEST(EmulatedGpuTest, SharedMemoryIsNotZero) {
  std::vector<float> kept(3);
  emulated_gpu::Run(3, 1, [&] { KeepInShared(kept.data()); });
  for (const float value : kept) EXPECT_TRUE(std::isnan(value));
}

TEST(EmulatedGpuTest, RandomOrdersDependOnTheSeedAlone) {
  const auto order = [](uint32_t seed) {
    SetThreadOrder(ThreadOrder::kRandom, seed);
    std::vector<unsigned> numbers(4 * kThreads);
    std::atomic<unsigned> count{0};
    emulated_gpu::Run(4, kThreads, [&] {
      numbers[count.fetch_add(1, std::memory_order_relaxed)] =
          ::blockIdx.x * kThreads + ::threadIdx.x;
    });
    SetThreadOrder(ThreadOrder::kAscending);
    return numbers;
  };
  const std::vector<unsigned> first = order(1);
  EXPECT_EQ(order(1), first);
  EXPECT_NE(order(2), first);
}

TEST(EmulatedGpuDeathTest, ShufflesNeedTheWholeWarp) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      emulated_gpu::Run(1, kThreads, [] { __shfl_xor_sync(0xffff, 1, 1); }),
      "whole warps");
  EXPECT_DEATH(emulated_gpu::Run(1, kThreads,
                                 [] {
                                   if (::threadIdx.x > 0)
                                     __shfl_xor_sync(~0u, 1, 1);
                                 }),
               "wait elsewhere or have left");
}

void Write(int* memory) { *memory = 1; }

cudaError_t LaunchOn(cudaStream_t stream, int* memory) {
  cudaLaunchConfig_t config = {};
  config.stream = stream;
  return cudaLaunchKernelEx(&config, &Write, memory);
}

TEST(EmulatedRuntimeTest, KeepsAThreadsLastError) {
  EXPECT_EQ(cudaSetDevice(kDevices), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(EmulatedRuntimeTest, ObjectsBelongToTheirGpu) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t stream;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, 0), cudaSuccess);
  void* memory;
  ASSERT_EQ(cudaMalloc(&memory, sizeof(int)), cudaSuccess);
  cudaPointerAttributes attributes;
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(LaunchOn(stream, static_cast<int*>(memory)), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  cudaEvent_t event;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(LaunchOn(stream, static_cast<int*>(memory)),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST(EmulatedRuntimeDeathTest, AKernelCannotUseAnotherGpusMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        ProtectMemory();
        int* const memory = static_cast<int*>(AllocateMemory(1, sizeof(int)));
        Stream* const stream = CreateStream(0);
        cudaSetDevice(0);
        LaunchOn(stream, memory);
        cudaStreamSynchronize(stream);
      },
      "");
}

TEST(EmulatedRuntimeDeathTest, UnpinnedMemoryMayNotBeInUse) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        void* host;
        void* memory;
        cudaStream_t stream;
        cudaStreamCreateWithFlags(&stream, 0);
        cudaMalloc(&memory, 1);
        std::vector<char> pages(1);
        host = pages.data();
        cudaHostRegister(host, 1, 0);
        cudaMemcpyAsync(memory, host, 1, cudaMemcpyHostToDevice, stream);
        cudaHostUnregister(host);
        cudaStreamSynchronize(stream);
      },
      "unpinned before a queued copy");
}

TEST(EmulatedRuntimeTest, StreamsShareConnections) {
  const auto blocked = [](int connections) {
    SetConnections(connections);
    std::vector<Stream*> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(CreateStream(0));
    SetConnections(0);
    bool open = false;
    Enqueue(streams[0], [&open] { return open; });
    std::vector<bool> blocked;
    for (Stream* stream : streams) {
      Enqueue(stream, [] { return true; });
      blocked.push_back(!TryReach(Record(stream)));
    }
    open = true;
    for (Stream* stream : streams) Reach(Record(stream));
    return blocked;
  };
  EXPECT_EQ(blocked(0), (std::vector<bool>{true, false, false}));
  EXPECT_EQ(blocked(2), (std::vector<bool>{true, false, true}));
}

}  // namespace
}  // namespace emulated_gpu
