#include "tests/worker/exchange/conformance/exchange_worker.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// No wait of a test takes a hundredth of this.
constexpr absl::Duration kPatience = absl::Minutes(1);
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

WorkState::Options StateOptions() {
  WorkState::Options options;
  options.steps = ExchangeWorkload::kSteps;
  return options;
}

}  // namespace

CheckingSink::CheckingSink(const ArenaLayout* layout)
    : chunks_(layout->chunk_count()),
      work_(StateOptions(), layout),
      newest_(layout->chunk_count(), -1),
      park_from_(kNever) {}

absl::Status CheckingSink::MapChunks(const MappedMemory& memory, int shard,
                                     int servers) {
  return work_.MapChunks(memory, shard, servers);
}

WeightsSink::Arrival CheckingSink::BeginWrite(int chunk, int64_t version,
                                              float** to) {
  absl::MutexLock lock(&mu_);
  EXPECT_FALSE(closed_) << "chunk " << chunk << ", version " << version;
  EXPECT_GT(version, newest_[chunk]) << "chunk " << chunk;
  if (version >= park_from_) {
    ++parked_;
    return Arrival::kPark;
  }
  return work_.BeginWrite(chunk, version, to);
}

void CheckingSink::EndWrite(int chunk, int64_t version) {
  absl::MutexLock lock(&mu_);
  EXPECT_FALSE(closed_) << "chunk " << chunk << ", version " << version;
  work_.EndWrite(chunk, version);
  newest_[chunk] = version;
  ++written_[version];
}

void CheckingSink::SetUnparked(std::function<void()> unparked) {
  absl::MutexLock lock(&mu_);
  unparked_ = std::move(unparked);
}

void CheckingSink::Fail(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  EXPECT_FALSE(closed_) << status;
  EXPECT_FALSE(status.ok());
  status_.Update(status);
}

absl::Status CheckingSink::status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

bool CheckingSink::AwaitVersion(int64_t version) {
  const auto settled = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    const auto written = written_.find(version);
    return (written != written_.end() && written->second == chunks_) ||
           !status_.ok();
  };
  absl::MutexLock lock(&mu_);
  EXPECT_TRUE(AwaitFor(&mu_, absl::Condition(&settled), kPatience))
      << "version " << version << " has not arrived";
  return written_[version] == chunks_;
}

absl::Status CheckingSink::AwaitFailure() {
  const auto failed = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return !status_.ok();
  };
  absl::MutexLock lock(&mu_);
  EXPECT_TRUE(AwaitFor(&mu_, absl::Condition(&failed), kPatience))
      << "the exchange has not failed";
  return status_;
}

void CheckingSink::Park(int64_t version) {
  absl::MutexLock lock(&mu_);
  park_from_ = version;
}

void CheckingSink::AwaitParked() {
  const auto parked = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return parked_ > 0;
  };
  absl::MutexLock lock(&mu_);
  EXPECT_TRUE(AwaitFor(&mu_, absl::Condition(&parked), kPatience))
      << "no version has arrived";
}

void CheckingSink::Unpark() {
  std::function<void()> unparked;
  {
    absl::MutexLock lock(&mu_);
    park_from_ = kNever;
    unparked = unparked_;
  }
  ASSERT_NE(unparked, nullptr);
  unparked();
}

void CheckingSink::Close() {
  absl::MutexLock lock(&mu_);
  closed_ = true;
}

ExchangeWorker::ExchangeWorker(const ExchangeWorkload* workload,
                               LeafRange micro_batches, const WorkerGpu& gpu)
    : workload_(workload),
      nodes_(MaximalSubtrees(micro_batches, ExchangeWorkload::kMicroBatches)),
      gpu_(gpu),
      sink_(&workload->layout) {}

void ExchangeWorker::Leave() {
  if (exchange_ == nullptr) return;
  exchange_.reset();
  sink_.Close();
}

void ExchangeWorker::PushInitial() {
  std::vector<float> weights(workload_->layout.arena_elements());
  workload_->Initialize(weights.data());
  exchange_->PushInitial(ArenaOf(weights));
}

Buffer ExchangeWorker::Compute(int64_t step, int node) {
  std::vector<float> sum(workload_->layout.arena_elements());
  workload_->NodeSum(step, node, WeightsOf(step).data(), sum.data());
  Buffer arena = gpu_.device == nullptr ? nullptr : DeviceArenaOf(sum);
  return arena == nullptr ? ArenaOf(sum) : arena;
}

Buffer ExchangeWorker::ArenaOf(const std::vector<float>& values) {
  Buffer arena = exchange_->TakeArena();
  const int64_t count = static_cast<int64_t>(values.size());
  if (exchange_->device() == nullptr) {
    std::copy_n(values.data(), count, arena.get());
  } else {
    exchange_->device()->CopyIn(values.data(), count, arena.get());
  }
  return arena;
}

Buffer ExchangeWorker::DeviceArenaOf(const std::vector<float>& values) {
  Buffer arena = exchange_->TakeDeviceArena();
  if (arena == nullptr) {
    // The sums of earlier steps must have been released.
    EXPECT_LT(gpu_.arenas, static_cast<int>(nodes_.size()));
    return nullptr;
  }
  absl::MutexLock lock(&device_mu_);
  gpu_.device->CopyFromHost(arena.get(), values.data(),
                            values.size() * sizeof(float));
  EXPECT_EQ(gpu_.device->Synchronize(), absl::OkStatus());
  return arena;
}

std::vector<float> ExchangeWorker::WeightsOf(int64_t version) {
  std::vector<float> weights(workload_->layout.arena_elements());
  const int64_t count = static_cast<int64_t>(weights.size());
  if (gpu_.device != nullptr) {
    const MemoryView from = exchange_->DeviceWeights(version);
    EXPECT_FALSE(from.empty()) << "version " << version;
    if (from.empty()) return weights;
    EXPECT_EQ(from.place == MemoryPlace::kDevice, gpu_.has_weights);
    absl::MutexLock lock(&device_mu_);
    EXPECT_EQ(gpu_.device->CopyToHost(weights.data(), from.values,
                                      weights.size() * sizeof(float)),
              absl::OkStatus());
  } else if (exchange_->device() == nullptr) {
    std::copy_n(sink_.Weights(version), count, weights.data());
  } else {
    EXPECT_TRUE(exchange_->device()
                    ->CopyOut(sink_.Weights(version), count, weights.data())
                    .ok());
  }
  return weights;
}

void ExchangeWorker::Push(int64_t step, int node, int chunk,
                          const Buffer& sum) {
  NodeChunk part;
  part.node = node;
  part.chunk = chunk;
  part.arena = sum;
  const LeafRange leaves = LeavesUnder(node, ExchangeWorkload::kMicroBatches);
  for (int leaf = leaves.begin; leaf < leaves.end; ++leaf) {
    part.sample_count += ExchangeWorkload::SampleCountOf(leaf);
    if (chunk == 0) part.loss_sum += ExchangeWorkload::LossOf(step, leaf);
  }
  exchange_->SenderOf(chunk)->Push(step, std::move(part));
}

void ExchangeWorker::PushStep(int64_t step) {
  std::vector<std::thread> threads;
  for (const int node : nodes_) {
    threads.emplace_back([this, step, node] {
      const Buffer sum = Compute(step, node);
      for (int chunk = workload_->layout.chunk_count() - 1; chunk >= 0;
           --chunk) {
        Push(step, node, chunk, sum);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void ExchangeWorker::Train(int64_t begin, int64_t end,
                           const ExchangeReference& reference) {
  for (int64_t step = begin; step < end; ++step) {
    ASSERT_TRUE(sink_.AwaitVersion(step)) << sink_.status();
    ExpectVersion(step, reference);
    PushStep(step);
  }
  ASSERT_TRUE(sink_.AwaitVersion(end)) << sink_.status();
  ExpectVersion(end, reference);
}

void ExchangeWorker::ExpectVersion(int64_t version,
                                   const ExchangeReference& reference) {
  const std::vector<float>& expected = reference.versions[version];
  EXPECT_EQ(std::memcmp(WeightsOf(version).data(), expected.data(),
                        expected.size() * sizeof(float)),
            0)
      << "version " << version;
}

}  // namespace tributary
