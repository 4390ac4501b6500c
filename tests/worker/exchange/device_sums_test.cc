#include "worker/exchange/device_sums.h"

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/buffer_pool.h"
#include "common/numerics/half.h"
#include "common/parameters/reduction_tree.h"
#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "tests/worker/exchange/function_sender.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/exchange/step_gradients.h"

namespace tributary {
namespace {

constexpr int kMicroBatches = 8;
constexpr int kChunks = 3;
constexpr int64_t kChunk = 1024;
constexpr int64_t kElements = kChunks * kChunk;
constexpr int64_t kBytes = kElements * sizeof(float);
constexpr int64_t kSpareBytes = int64_t{1} << 20;

float MicroBatchValue(int micro_batch, int64_t element) {
  const float scale[] = {1e3f, 1.f, -1e3f, 0.1f, 3e2f, -7.f, 1e-3f, 5e1f};
  return scale[micro_batch] * (1.f + 0.0123f * static_cast<float>(element));
}

double MicroBatchLoss(int micro_batch) { return 1.0 / (3 + micro_batch); }
int64_t MicroBatchSampleCount(int micro_batch) { return 10 + micro_batch; }

ArenaLayout Layout() {
  ParameterTable table;
  table.set_chunk_elements(kChunk);
  auto* const parameter = table.add_parameter();
  parameter->set_name("w");
  parameter->add_shape(kElements);
  parameter->set_group(DECAY);
  return *ArenaLayout::Create(table);
}

using Sent = std::map<std::pair<int, int>, NodeChunk>;  // By node and chunk.

StepGradients Gradients(const ArenaLayout& layout, WireDtype dtype,
                        const std::vector<int64_t>& micro_batches, Sent* sent) {
  StepGradients::Plan plan;
  plan.layout = &layout;
  plan.tree_leaves = kMicroBatches;
  plan.dtype = dtype;
  return StepGradients(plan, /*step=*/0, micro_batches,
                       SendTo([sent](NodeChunk sum) {
                         const std::pair<int, int> key = {sum.node, sum.chunk};
                         EXPECT_TRUE(sent->emplace(key, std::move(sum)).second);
                       }));
}

class DeviceSumsTest : public testing::TestWithParam<WireDtype> {
 protected:
  DeviceSumsTest()
      : layout_(Layout()),
        device_(*CreateCudaDevice(/*ordinal=*/0)),
        gradients_(*device_->Allocate(kBytes)),
        pool_(kElements) {
    emulated_gpu::ProtectMemory();
  }
  ~DeviceSumsTest() override { emulated_gpu::SetMemoryBytes(size_t{1} << 40); }

  // Leaves memory for so many arenas.
  void LimitArenas(int count) {
    const size_t used =
        emulated_gpu::MemoryBytes() - emulated_gpu::FreeMemoryBytes();
    emulated_gpu::SetMemoryBytes(used + kSpareBytes + count * kBytes);
  }

  DeviceSums Sums() {
    return DeviceSums(device_.get(), &layout_, kMicroBatches, GetParam(),
                      kSpareBytes);
  }

  // As a compute thread computes them. Returns how many sums have left the
  // device.
  int Compute(const std::vector<int64_t>& micro_batches, DeviceSums* sums,
              StepGradients* step) {
    int left = 0;
    sums->Begin(micro_batches);
    for (const int64_t item : micro_batches) {
      const int micro_batch = static_cast<int>(item);
      // Some models state the count later.
      const bool states_count = micro_batch % 2 == 1;
      const int64_t sample_count = MicroBatchSampleCount(micro_batch);
      sums->BeginMicroBatch(micro_batch, states_count ? 100 : sample_count,
                            static_cast<float*>(gradients_.get()));
      if (states_count) sums->SetSampleCount(sample_count);
      std::vector<float> values(kElements);
      for (int64_t i = 0; i < kElements; ++i) {
        values[i] = MicroBatchValue(micro_batch, i);
      }
      device_->CopyFromHost(gradients_.get(), values.data(), kBytes);
      sums->Add(1, kChunks);
      sums->Add(0, 1);
      Buffer sum;
      if (sums->complete()) {
        sum = pool_.Take();
        EXPECT_TRUE(device_->CopyToHost(sum.get(), sums->sum(), kBytes).ok());
        ++left;
      }
      const LossSum loss = sums->EndMicroBatch(MicroBatchLoss(micro_batch));
      for (int chunk = kChunks - 1; sum != nullptr && chunk >= 0; --chunk) {
        step->Ready({sums->node(), chunk, sum, sums->sample_count(),
                     chunk == 0 ? loss : LossSum()});
      }
    }
    return left;
  }

  // What the host makes of the same micro-batches.
  Sent OnHost(const std::vector<int64_t>& micro_batches) {
    Sent sent;
    StepGradients step = Gradients(layout_, GetParam(), micro_batches, &sent);
    for (const int64_t item : micro_batches) {
      const int micro_batch = static_cast<int>(item);
      const Buffer arena = pool_.Take();
      for (int64_t i = 0; i < kElements; ++i)
        arena.get()[i] = MicroBatchValue(micro_batch, i);
      for (int chunk = kChunks - 1; chunk >= 0; --chunk) {
        step.Ready({step.NodeOf(micro_batch), chunk, arena,
                    MicroBatchSampleCount(micro_batch),
                    chunk == 0 ? MicroBatchLoss(micro_batch) : 0});
      }
    }
    return sent;
  }

  void ExpectSame(const Sent& got, const Sent& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [key, sum] : expected) {
      ASSERT_EQ(got.count(key), 1u) << "node " << key.first;
      const NodeChunk& other = got.at(key);
      EXPECT_EQ(other.sample_count, sum.sample_count);
      EXPECT_EQ(other.loss_sum, sum.loss_sum);
      const int64_t begin = layout_.ChunkBegin(key.second);
      for (int64_t i = begin; i < begin + kChunk; ++i) {
        ASSERT_EQ(other.arena.get()[i], sum.arena.get()[i])
            << "node " << key.first << ", element " << i;
      }
    }
  }

  const ArenaLayout layout_;
  const std::unique_ptr<Device> device_;
  const Device::Memory gradients_;
  BufferPool pool_;
};

const std::vector<int64_t> kCases[] = {
    {0, 1, 2, 3, 4, 5, 6, 7}, {0}, {7}, {1, 2, 3}, {4, 5}, {2, 3, 4, 5, 6},
    {0, 1, 2, 5, 6, 7},  // Two runs.
};

TEST_P(DeviceSumsTest, OnlyWholeSumsLeaveTheDeviceWithTheHostsBits) {
  DeviceSums sums = Sums();
  for (const std::vector<int64_t>& micro_batches : kCases) {
    Sent sent;
    StepGradients step = Gradients(layout_, GetParam(), micro_batches, &sent);
    const int left = Compute(micro_batches, &sums, &step);
    EXPECT_EQ(left,
              static_cast<int>(
                  MaximalSubtreesOf(micro_batches, kMicroBatches).size()));
    ExpectSame(sent, OnHost(micro_batches));
  }
}

TEST_P(DeviceSumsTest, WithLittleMemoryTheHostAddsTheRest) {
  const int left_of_eight[] = {8, 4, 2, 1};
  for (int arenas = 0; arenas < 4; ++arenas) {
    DeviceSums sums = Sums();
    LimitArenas(arenas);
    for (const std::vector<int64_t>& micro_batches : kCases) {
      Sent sent;
      StepGradients step = Gradients(layout_, GetParam(), micro_batches, &sent);
      const int left = Compute(micro_batches, &sums, &step);
      if (micro_batches.size() == kMicroBatches) {
        EXPECT_EQ(left, left_of_eight[arenas]);
      }
      ExpectSame(sent, OnHost(micro_batches));
    }
  }
}

TEST_P(DeviceSumsTest, WhatWasGivenUpLeavesNothingBehind) {
  DeviceSums sums = Sums();
  sums.Begin({0, 1, 2, 3});
  for (const int micro_batch : {0, 1, 2}) {
    sums.BeginMicroBatch(micro_batch, 1, static_cast<float*>(gradients_.get()));
    sums.Add(0, kChunks);
    if (micro_batch < 2) sums.EndMicroBatch(1);
  }
  const std::vector<int64_t> micro_batches = {3, 4, 5, 6, 7};
  Sent sent;
  StepGradients step = Gradients(layout_, GetParam(), micro_batches, &sent);
  EXPECT_EQ(Compute(micro_batches, &sums, &step), 2);
  ExpectSame(sent, OnHost(micro_batches));
}

TEST_P(DeviceSumsTest, AddsChunksThatAreReadyTogetherInOneLaunch) {
  DeviceSums sums = Sums();
  sums.Begin({0, 1});
  for (const int micro_batch : {0, 1}) {
    sums.BeginMicroBatch(micro_batch, 1, static_cast<float*>(gradients_.get()));
    const emulated_gpu::Calls before = emulated_gpu::CountCalls();
    sums.Add(0, kChunks);
    EXPECT_EQ((emulated_gpu::CountCalls() - before).launches, 1);
    sums.EndMicroBatch(1);
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, DeviceSumsTest,
                         testing::Values(ExchangeSpec::FLOAT32,
                                         ExchangeSpec::BFLOAT16,
                                         ExchangeSpec::FLOAT16));

}  // namespace
}  // namespace tributary
