#include "worker/exchange/task_weights.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/device/cuda/emulation/emulated_streams.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr int64_t kMebi = int64_t{1} << 20;
constexpr int64_t kChunk = kMebi / int64_t{sizeof(float)};

// Weights that arrive when they are awaited, up to `arriving` elements.
class ArrivingWeights final : public WorkState {
 public:
  ArrivingWeights(const ArenaLayout* layout, int64_t arriving)
      : WorkState(Options(), layout),
        arriving_(arriving),
        weights_(layout->arena_elements(), 0) {}

  bool AwaitWeights(const Task&, int64_t begin, int64_t end) override {
    copies.push_back(emulated_gpu::CountCalls().copies_to_device);
    awaited.emplace_back(begin, end);
    if (end > arriving_) return false;
    std::fill(weights_.begin() + begin, weights_.begin() + end, 1.f);
    return true;
  }
  const float* Weights(int64_t) const override { return weights_.data(); }
  std::vector<absl::Span<char>> WeightMemory() const override { return {}; }
  absl::Status MapChunks(const MappedMemory&, int, int) override {
    return absl::OkStatus();
  }
  Arrival BeginWrite(int, int64_t, float**) override { return Arrival::kDrop; }
  void EndWrite(int, int64_t) override {}

  std::vector<std::pair<int64_t, int64_t>> awaited;
  std::vector<int64_t> copies;  // Begun before each wait.

 protected:
  int64_t CompleteVersion() const override { return 0; }
  bool DecideTraining(int64_t, Task*) const override { return false; }
  bool MustGiveUp(const Task&) const override { return false; }

 private:
  const int64_t arriving_;
  std::vector<float> weights_;
};

// An exchange whose weights are on the host or, unless `local` is null, there.
class WeightsAt final : public Exchange {
 public:
  WeightsAt(const ArenaLayout* layout, float* local)
      : Exchange(JobSpec(), layout), local_(local) {}
  Buffer TakeArena() override { return nullptr; }
  MemoryView DeviceWeights(int64_t) const override {
    return {local_, /*owner=*/nullptr,
            local_ == nullptr ? MemoryPlace::kHost : MemoryPlace::kDevice};
  }
  void PushInitial(Buffer) override {}
  GradientSender* SenderOf(int) override { return nullptr; }
  void Finish() override {}
  void FillStatistics(ProcessStatistics*) const override {}

 private:
  float* const local_;
};

class TaskWeightsTest : public testing::Test {
 protected:
  TaskWeightsTest() {
    ParameterTable table;
    ParameterTable::Parameter* const weights = table.add_parameter();
    weights->set_name("weights");
    weights->add_shape(40 * kChunk);
    weights->set_group(DECAY);
    table.set_chunk_elements(kChunk);
    layout_ = std::make_unique<ArenaLayout>(*ArenaLayout::Create(table));
    arenas_ = *DeviceArenas::Create(device_.get(), layout_.get());
  }

  bool Await(WorkState* state, bool reads_in_place = false) {
    float in_place = 0;
    const WeightsAt exchange(layout_.get(),
                             reads_in_place ? &in_place : nullptr);
    const Task task;
    const TaskWeights weights(task, state, exchange, arenas_.get(),
                              /*observer=*/nullptr);
    EXPECT_EQ(weights.data(), reads_in_place ? &in_place : arenas_->weights());
    return weights.Await(0, layout_->arena_elements());
  }

  const std::unique_ptr<Device> device_ = *CreateCudaDevice(/*ordinal=*/0);
  std::unique_ptr<ArenaLayout> layout_;
  std::unique_ptr<DeviceArenas> arenas_;
};

TEST_F(TaskWeightsTest, CopiesThePiecesOfALargeRangeAsTheyArrive) {
  ArrivingWeights state(layout_.get(), layout_->arena_elements());
  const int64_t before = emulated_gpu::CountCalls().copies_to_device;
  EXPECT_TRUE(Await(&state));
  EXPECT_THAT(state.awaited,
              ElementsAre(Pair(0, 16 * kChunk), Pair(16 * kChunk, 32 * kChunk),
                          Pair(32 * kChunk, 40 * kChunk)));
  EXPECT_THAT(state.copies, ElementsAre(before, before + 1, before + 2));
  std::vector<float> there(layout_->arena_elements());
  EXPECT_TRUE(device_
                  ->CopyToHost(there.data(), arenas_->weights(),
                               there.size() * sizeof(float))
                  .ok());
  EXPECT_TRUE(there == std::vector<float>(there.size(), 1));
}

TEST_F(TaskWeightsTest, GivesUpWithoutTheLaterPieces) {
  ArrivingWeights state(layout_.get(), 16 * kChunk);
  EXPECT_FALSE(Await(&state));
  EXPECT_EQ(state.awaited.size(), 2u);
  EXPECT_TRUE(arenas_->Synchronize().ok());
}

TEST_F(TaskWeightsTest, CopiesNoWeightsThatAreReadInPlace) {
  ArrivingWeights state(layout_.get(), layout_->arena_elements());
  const int64_t before = emulated_gpu::CountCalls().copies_to_device;
  EXPECT_TRUE(Await(&state, /*reads_in_place=*/true));
  EXPECT_THAT(state.awaited, ElementsAre(Pair(0, 40 * kChunk)));
  EXPECT_EQ(emulated_gpu::CountCalls().copies_to_device, before);
}

}  // namespace
}  // namespace tributary
