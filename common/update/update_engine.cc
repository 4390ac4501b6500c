#include "common/update/update_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/failpoint.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/numerics/streaming_copy.h"
#include "common/text/counted.h"
#include "common/update/consistency/create_consistency_policy.h"

namespace tributary {
namespace {

// Returns null if ordinary memory is as fast.
std::function<Buffer()> SourceOf(const ChunkPasses& passes) {
  if (passes.host_buffer != nullptr) return passes.host_buffer;
  return [] { return nullptr; };
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateEngine>> UpdateEngine::Create(
    const Options& options, ArenaLayout layout, Executor* pool,
    SumsCallback on_sums) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<ConsistencyPolicy> policy,
                             CreateConsistencyPolicy(options.job, options.steps,
                                                     options.first_version));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(options.job.optimizer()));
  ChunkPassPlan plan;
  plan.job = &options.job;
  plan.layout = &layout;
  plan.chunks = layout.ChunksOf(options.shard, options.servers);
  plan.optimizer = optimizer.get();
  TRIBUTARY_ASSIGN_OR_RETURN(ChunkPasses passes, options.make_passes(plan));
  return std::unique_ptr<UpdateEngine>(new UpdateEngine(
      options, std::move(layout), pool, std::move(policy), std::move(optimizer),
      std::move(passes), std::move(on_sums)));
}

UpdateEngine::UpdateEngine(const Options& options, ArenaLayout layout,
                           Executor* pool,
                           std::unique_ptr<ConsistencyPolicy> policy,
                           std::unique_ptr<Optimizer> optimizer,
                           ChunkPasses passes, SumsCallback on_sums)
    : options_(options),
      policy_(std::move(policy)),
      recipe_(options.job, options.steps, StatisticsRate(options.job)),
      traits_(ResolveExchange(options.job)),
      layout_(std::move(layout)),
      check_(layout_, leaves(), options.steps, options.sample_counts),
      pool_(pool),
      optimizer_(std::move(optimizer)),
      on_sums_(std::move(on_sums)),
      pin_memory_(passes.pin),
      device_share_(std::move(passes.share)),
      chunk_numbers_(layout_.ChunksOf(options.shard, options.servers)),
      buffers_(std::min(layout_.chunk_elements(), layout_.arena_elements()),
               SourceOf(passes)),
      halves_((buffers_.elements() + 1) / 2),
      passes_(std::move(passes.group)),
      settings_(ChunkSettings()),
      dense_(policy_.get()),
      queue_(pool, QueueOptions()) {
  for (size_t place = 0; place < chunk_numbers_.size(); ++place) {
    const int number = chunk_numbers_[place];
    dense_.Add(std::make_unique<ChunkUpdater>(
        &settings_, number, static_cast<int>(place), layout_.ChunkSize(number),
        policy_->NewQueue(), std::move(passes.passes[place])));
  }
}

ChunkUpdater::Settings UpdateEngine::ChunkSettings() {
  ChunkUpdater::Settings settings;
  settings.exchange = exchange();
  settings.awaits_norm = traits_.updates_await_norm;
  // With compression, the weights are read again at once, so they should stay
  // in the cache.
  settings.streams =
      !exchange().has_compression() &&
      layout_.arena_elements() / options_.servers * int64_t{sizeof(float)} >=
          kStreamingBytes;
  settings.slots = optimizer_->slots();
  settings.attempt = options_.attempt;
  settings.recipe = &recipe_;
  settings.buffers = &buffers_;
  settings.halves = &halves_;
  settings.shares_device = device_share_ != nullptr;
  settings.trace = options_.trace;
  settings.revoked = &revoked_;
  settings.on_failure = [this](int chunk, const absl::Status& status) {
    Fail(chunk, status);
  };
  return settings;
}

UpdateQueue::Options UpdateEngine::QueueOptions() {
  UpdateQueue::Options options;
  options.most = passes_->most();
  options.streams = passes_->streams();
  options.run = [this](const std::vector<int>& numbers,
                       std::optional<double> norm) {
    std::vector<ChunkUpdater*> chunks;
    for (const int number : numbers) chunks.push_back(dense_.Find(number));
    if (norm.has_value()) {
      Update(chunks, norm, /*more=*/true);
    } else {
      BeginSteps(chunks, /*more=*/true);
    }
  };
  options.on_idle = [this] {
    absl::MutexLock lock(&subscribers_mu_);
    for (WeightsSubscriber* subscriber : subscribers_) subscriber->OnBurstEnd();
  };
  return options;
}

absl::Status UpdateEngine::CheckChunk(int chunk) const {
  if (dense_.Find(chunk) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk ", chunk, " is not one of server ", options_.shard, "'s ",
      chunk_numbers_.size(), " of ", Counted(layout_.chunk_count(), "chunk")));
}

absl::Status UpdateEngine::AddInitial(int number, Buffer values) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  ChunkUpdater* const chunk = dense_.Find(number);
  if (device_share_ == nullptr) {
    chunk->Initialize(/*version=*/0, std::move(values), /*slots=*/{});
  } else {
    // The caller must not wait for the device.
    pool_->Run([chunk, values = std::move(values)] {
      chunk->Initialize(/*version=*/0, values, /*slots=*/{});
    });
  }
  return absl::OkStatus();
}

Snapshot UpdateEngine::BlankSnapshot() {
  return MakeSnapshot(layout_, chunk_numbers_, settings_.slots);
}

void UpdateEngine::Restore(Snapshot snapshot) {
  for (const auto& chunk : dense_.chunks()) {
    Snapshot::Chunk& from = snapshot.chunks[chunk->place()];
    chunk->Initialize(snapshot.version, std::move(from.values),
                      std::move(from.slots));
  }
}

bool UpdateEngine::TakeSnapshot(int64_t version,
                                std::function<void(Snapshot)> done) {
  const auto capture = std::make_shared<SnapshotCapture>(
      version, chunk_numbers_.size(), std::move(done));
  absl::MutexLock lock(&capture_mu_);
  bool captured = true;
  for (const auto& chunk : dense_.chunks()) {
    captured &= chunk->Capture(captured ? capture : nullptr);
  }
  if (captured) {
    capture->Release();
  } else {
    for (const auto& chunk : dense_.chunks()) chunk->Capture(nullptr);
  }
  return captured;
}

int64_t UpdateEngine::NewestPossibleStep() const {
  int64_t newest = 0;
  for (const auto& chunk : dense_.chunks()) {
    newest = std::max(newest, chunk->version());
  }
  return newest + 1 + traits_.staleness;
}

void UpdateEngine::Revoke(int64_t incarnation) {
  revoked_.Add(incarnation);
  for (const auto& chunk : dense_.chunks()) chunk->DropFrom(incarnation);
}

absl::Status UpdateEngine::AddContribution(int number, NodeSum sum) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  TRIBUTARY_RETURN_IF_ERROR(check_.Check(number, sum));
  TRIBUTARY_RETURN_IF_ERROR(Failpoint("S5"));
  ChunkUpdater* const chunk = dense_.Find(number);
  TRIBUTARY_ASSIGN_OR_RETURN(const bool complete,
                             chunk->Contribute(std::move(sum)));
  if (complete && chunk->pass()->brief()) {
    BeginSteps({chunk}, /*more=*/false);
  } else if (complete) {
    queue_.Add(number, std::nullopt);
  }
  return Failpoint("S6");
}

void UpdateEngine::BeginSteps(Chunks chunks, bool more) {
  if (!settings_.awaits_norm) {
    return Update(chunks, /*norm=*/std::nullopt, more);
  }
  std::vector<ChunkPassGroup::SumItem> items;
  for (ChunkUpdater* const chunk : chunks) {
    items.push_back({chunk->pass(), &chunk->update().sum});
  }
  const absl::Time begin = TraceTime();
  const absl::StatusOr<std::vector<double>> squares =
      passes_->SumOfSquares(items);
  if (!squares.ok()) return Fail(chunks[0]->number(), squares.status());
  const absl::Time end = TraceTime();
  for (size_t i = 0; i < chunks.size(); ++i) {
    chunks[i]->SumDone(begin, end);
    ReportSum(*chunks[i], (*squares)[i]);
  }
}

void UpdateEngine::ReportSum(const ChunkUpdater& chunk, double sum_of_squares) {
  const std::optional<StepSums> complete = dense_.AddSum(chunk, sum_of_squares);
  if (complete.has_value()) on_sums_(*complete);
}

void UpdateEngine::SetGradientNorm(int64_t step, double norm) {
  if (!settings_.awaits_norm) return;
  for (const auto& chunk : dense_.chunks()) {
    if (chunk->NormKnown(step)) queue_.Add(chunk->number(), norm);
  }
}

void UpdateEngine::Update(Chunks chunks, std::optional<double> norm,
                          bool more) {
  std::vector<ChunkPassGroup::RunItem> items;
  for (ChunkUpdater* const chunk : chunks) {
    items.push_back({chunk->pass(), &chunk->BeginUpdate(norm.value_or(
                                        chunk->update().gradient_norm))});
  }
  const absl::Time begin = TraceTime();
  const absl::StatusOr<std::vector<double>> squares = passes_->Run(items);
  if (!squares.ok()) return Fail(chunks[0]->number(), squares.status());
  const absl::Time end = TraceTime();
  for (size_t i = 0; i < chunks.size(); ++i) {
    ChunkUpdater* const chunk = chunks[i];
    // In synchronous mode no chunk can be summed for the next step before the
    // new version is published, so reports are made in the order of steps.
    if (!settings_.awaits_norm) ReportSum(*chunk, (*squares)[i]);
    Snapshot::Chunk copy = chunk->UpdateDone(begin, end);
    if (replicate_ == nullptr) {
      Publish(chunk, more);
      continue;
    }
    // The replica's answer may come after the burst.
    replicate_(chunk->version() + 1, std::move(copy),
               [this, chunk] { Publish(chunk, /*more=*/false); });
  }
}

void UpdateEngine::Publish(ChunkUpdater* chunk, bool more) {
  // Schedules instead of calling directly, to bound the recursion for a chunk
  // with a long queue.
  if (chunk->Publish(more)) queue_.Add(chunk->number(), std::nullopt);
}

void UpdateEngine::Fail(int chunk, const absl::Status& status) {
  if (!options_.on_failure) return;
  absl::call_once(
      failed_, options_.on_failure,
      absl::Status(status.code(),
                   absl::StrCat("chunk ", chunk, ": ", status.message())));
}

absl::StatusOr<SharedMemoryOffer> UpdateEngine::ShareWeights() {
  absl::MutexLock lock(&share_mu_);
  if (memory_ != nullptr) return memory_->offer();
  const int64_t span =
      RoundUpToPage(layout_.arena_elements() * int64_t{sizeof(float)});
  TRIBUTARY_ASSIGN_OR_RETURN(memory_, SharedMemory::Create(2 * span));
  auto* const arenas = reinterpret_cast<float*>(memory_->data());
  const std::shared_ptr<const void> pinned =
      PinLater(Buffer(memory_, arenas), static_cast<size_t>(memory_->bytes()),
               pin_memory_, pool_);
  for (const auto& chunk : dense_.chunks()) {
    float* const even = arenas + layout_.ChunkBegin(chunk->number());
    chunk->Share(Buffer(pinned, even),
                 Buffer(pinned, even + span / int64_t{sizeof(float)}));
  }
  return memory_->offer();
}

std::unique_ptr<PinnedArenas> UpdateEngine::ArenasIn(Buffer memory,
                                                     int64_t bytes) {
  return std::make_unique<PinnedArenas>(
      std::move(memory), bytes,
      RoundUpToPage(layout_.arena_elements() * int64_t{sizeof(float)}),
      pin_memory_, pool_);
}

void UpdateEngine::Subscribe(WeightsSubscriber* subscriber, MemoryPlace place) {
  // Before any call of OnWeights with WeightsVersion::more, so that OnBurstEnd
  // follows.
  {
    absl::MutexLock lock(&subscribers_mu_);
    subscribers_.push_back(subscriber);
  }
  for (const auto& chunk : dense_.chunks()) chunk->Subscribe(subscriber, place);
}

void UpdateEngine::Unsubscribe(WeightsSubscriber* subscriber) {
  for (const auto& chunk : dense_.chunks()) chunk->Unsubscribe(subscriber);
  absl::MutexLock lock(&subscribers_mu_);
  subscribers_.erase(
      std::remove(subscribers_.begin(), subscribers_.end(), subscriber),
      subscribers_.end());
}

absl::StatusOr<WeightsVersion> UpdateEngine::Read(int chunk, int64_t version) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(chunk));
  return dense_.Find(chunk)->Read(version);
}

absl::Time UpdateEngine::TraceTime() const {
  return options_.trace == nullptr ? absl::Time() : MonotonicNow();
}

}  // namespace tributary
