#include "worker/exchange/device_arenas.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_memory.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"
#include "worker/device/reals.h"

namespace tributary {
namespace {

using ::testing::Each;

constexpr int64_t kChunk = 1024;
constexpr int kChunks = 3;

class DeviceArenasTest : public testing::Test {
 protected:
  DeviceArenasTest() {
    emulated_gpu::ProtectMemory();
    ParameterTable table;
    ParameterTable::Parameter* const weights = table.add_parameter();
    weights->set_name("weights");
    weights->add_shape(kChunk * kChunks);
    weights->set_group(DECAY);
    table.set_chunk_elements(kChunk);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    device_ = *CreateCudaDevice(/*ordinal=*/0);
    arenas_ = *DeviceArenas::Create(device_.get(), layout_.get());
    for (std::vector<float>* host : {&weights_, &gradients_}) {
      host->assign(kChunk * kChunks, 0);
      pinned_.push_back(device_->copies()->PinHostMemory(
          host->data(), host->size() * sizeof(float)));
    }
  }

  void Fill(float value) { weights_.assign(weights_.size(), value); }

  void Load(int first, const std::vector<DeviceArenas::Version>& versions) {
    arenas_->Load(first, versions, weights_.data());
  }

  // What operations find in a chunk of the weights.
  std::vector<float> Chunk(int chunk) {
    std::vector<float> values(kChunk);
    EXPECT_TRUE(device_
                    ->CopyToHost(values.data(),
                                 arenas_->weights() + chunk * kChunk,
                                 kChunk * sizeof(float))
                    .ok());
    return values;
  }

  std::unique_ptr<ArenaLayout> layout_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceArenas> arenas_;
  std::vector<float> weights_, gradients_;
  std::vector<std::shared_ptr<void>> pinned_;
};

TEST_F(DeviceArenasTest, LoadsAVersionOfAChunkOnce) {
  Fill(1);
  Load(0, {{7, 0}});
  Load(2, {{7, 0}});
  EXPECT_THAT(Chunk(0), Each(1));
  EXPECT_THAT(Chunk(2), Each(1));
  EXPECT_THAT(Chunk(1), Each(0));
  Fill(2);
  Load(0, {{7, 0}});
  EXPECT_THAT(Chunk(0), Each(1));
  // Another step, and in modes where that says little another base.
  Load(0, {{8, 0}});
  Load(2, {{7, 6}});
  EXPECT_THAT(Chunk(0), Each(2));
  EXPECT_THAT(Chunk(2), Each(2));
  EXPECT_TRUE(arenas_->Synchronize().ok());
}

TEST_F(DeviceArenasTest, LoadsNeighbouringChunksInOneCopy) {
  Fill(1);
  emulated_gpu::Calls before = emulated_gpu::CountCalls();
  Load(0, {{7, 0}, {7, 0}, {7, 0}});
  emulated_gpu::Calls calls = emulated_gpu::CountCalls() - before;
  EXPECT_EQ(calls.copies_to_device, 1);
  EXPECT_EQ(calls.events, 1);
  EXPECT_EQ(calls.waits, 0);
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_THAT(Chunk(chunk), Each(1));
  }
  Fill(2);
  before = emulated_gpu::CountCalls();
  // The chunk between them is held already.
  Load(0, {{8, 0}, {7, 0}, {8, 0}});
  calls = emulated_gpu::CountCalls() - before;
  EXPECT_EQ(calls.copies_to_device, 2);
  EXPECT_EQ(calls.events, 1);
  EXPECT_THAT(Chunk(0), Each(2));
  EXPECT_THAT(Chunk(1), Each(1));
  EXPECT_THAT(Chunk(2), Each(2));
  before = emulated_gpu::CountCalls();
  Load(0, {{8, 0}, {7, 0}, {8, 0}});
  calls = emulated_gpu::CountCalls() - before;
  EXPECT_EQ(calls.copies_to_device, 0);
  EXPECT_EQ(calls.events, 0);
}

TEST_F(DeviceArenasTest, LoadsAllOfAVersionThatIsNeverTheSame) {
  Fill(1);
  Load(0, {{7, 0}});
  EXPECT_TRUE(arenas_->Synchronize().ok());
  Fill(2);
  arenas_->LoadAll(weights_.data());
  EXPECT_TRUE(arenas_->Synchronize().ok());
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    EXPECT_THAT(Chunk(chunk), Each(2));
  }
  Fill(3);
  arenas_->LoadAll(weights_.data());
  EXPECT_TRUE(arenas_->Synchronize().ok());
  EXPECT_THAT(Chunk(0), Each(3));
  Load(0, {{7, 0}});
  EXPECT_THAT(Chunk(0), Each(3));
}

TEST_F(DeviceArenasTest, SavesGradientsAsTheyAreThen) {
  Fill(5);
  arenas_->LoadAll(weights_.data());
  const auto add = [&] {
    device_->ops().elementwise->Add({kChunk * kChunks,
                                     AsReals(arenas_->weights()),
                                     AsReals(arenas_->gradients())});
  };
  add();
  const emulated_gpu::Calls before = emulated_gpu::CountCalls();
  arenas_->Save(/*first=*/1, /*last=*/3, arenas_->gradients(),
                gradients_.data());
  const emulated_gpu::Calls calls = emulated_gpu::CountCalls() - before;
  EXPECT_EQ(calls.copies_to_host, 1);
  EXPECT_EQ(calls.events, 2);  // That the gradients are made, and copied.
  EXPECT_TRUE(arenas_->AwaitSaved(2).ok());
  EXPECT_EQ(gradients_[2 * kChunk], 5);
  EXPECT_TRUE(arenas_->AwaitSaved(1).ok());
  EXPECT_TRUE(arenas_->Saved(1).value());
  EXPECT_EQ((emulated_gpu::CountCalls() - before).waits, 1);
  EXPECT_EQ(gradients_[kChunk], 5);
  EXPECT_EQ(gradients_[3 * kChunk - 1], 5);
  EXPECT_EQ(gradients_[0], 0);
  add();
  arenas_->Save(/*first=*/0, /*last=*/1, arenas_->gradients(),
                gradients_.data());
  EXPECT_TRUE(arenas_->Synchronize().ok());
  EXPECT_EQ(gradients_[kChunk - 1], 10);
  EXPECT_EQ(gradients_[kChunk], 5);
}

// As with the memory of a server's GPU.
TEST_F(DeviceArenasTest, LoadsAndSavesInDeviceMemory) {
  const size_t bytes = kChunk * kChunks * sizeof(float);
  const Device::Memory memory = *device_->Allocate(bytes);
  float* const arena = static_cast<float*>(memory.get());
  Fill(3);
  device_->CopyFromHost(arena, weights_.data(), bytes);
  const emulated_gpu::Calls before = emulated_gpu::CountCalls();
  arenas_->Load(1, {{7, 0}, {7, 0}}, arena, MemoryPlace::kPeerDevice);
  device_->ops().elementwise->Add({kChunk * kChunks,
                                   AsReals(arenas_->weights()),
                                   AsReals(arenas_->gradients())});
  arenas_->Save(/*first=*/1, /*last=*/2, arenas_->gradients(), arena,
                MemoryPlace::kPeerDevice);
  EXPECT_TRUE(arenas_->AwaitSaved(1).ok());
  const emulated_gpu::Calls calls = emulated_gpu::CountCalls() - before;
  EXPECT_EQ(calls.copies_to_device, 0);
  EXPECT_EQ(calls.copies_to_host, 0);
  EXPECT_THAT(Chunk(0), Each(0));
  EXPECT_THAT(Chunk(2), Each(3));
  std::vector<float> saved(kChunk * kChunks);
  EXPECT_TRUE(device_->CopyToHost(saved.data(), arena, bytes).ok());
  EXPECT_EQ(saved[kChunk], 3);
  EXPECT_EQ(saved[2 * kChunk - 1], 3);
}

TEST_F(DeviceArenasTest, ACopyOnTheDeviceIsSavedOnceItIsComplete) {
  const size_t bytes = kChunk * kChunks * sizeof(float);
  const Device::Memory memory = *device_->Allocate(bytes);
  float* const arena = static_cast<float*>(memory.get());
  Fill(3);
  arenas_->LoadAll(weights_.data());
  EXPECT_TRUE(arenas_->Synchronize().ok());
  arenas_->Save(/*first=*/0, kChunks, arenas_->weights(), arena,
                MemoryPlace::kPeerDevice);
  EXPECT_TRUE(arenas_->Saved(0).value());
  // What another process finds after the notice.
  const emulated_gpu::Running running;
  EXPECT_EQ(arena[0], 3);
}

TEST(DeviceArenasOfALargeModelTest, SaveInCopiesOfBoundedSize) {
  constexpr int64_t kLarge = int64_t{5} << 20;
  static_assert(DeviceArenas::kMaximumCopyBytes / kLarge == 3, "per copy");
  ParameterTable table;
  ParameterTable::Parameter* const weights = table.add_parameter();
  weights->set_name("weights");
  weights->add_shape(7 * kLarge / int64_t{sizeof(float)});
  weights->set_group(DECAY);
  table.set_chunk_elements(kLarge / int64_t{sizeof(float)});
  const ArenaLayout layout = *ArenaLayout::Create(table);
  const std::unique_ptr<Device> device = *CreateCudaDevice(/*ordinal=*/0);
  const std::unique_ptr<DeviceArenas> arenas =
      *DeviceArenas::Create(device.get(), &layout);
  std::vector<float> host(layout.arena_elements(), 1);
  const emulated_gpu::Calls before = emulated_gpu::CountCalls();
  arenas->Save(/*first=*/0, layout.chunk_count(), arenas->gradients(),
               host.data());
  EXPECT_EQ((emulated_gpu::CountCalls() - before).copies_to_host, 3);
  // The last chunks come first.
  EXPECT_TRUE(arenas->AwaitSaved(layout.chunk_count() - 1).ok());
  EXPECT_EQ(host.back(), 0);
  EXPECT_EQ(host.front(), 1);
  EXPECT_TRUE(arenas->AwaitSaved(0).ok());
  EXPECT_EQ(host.front(), 0);
}

}  // namespace
}  // namespace tributary
