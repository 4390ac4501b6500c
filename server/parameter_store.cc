#include "server/parameter_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/reduction_tree.h"
#include "common/schedule.h"
#include "common/status_macros.h"
#include "common/vector_ops.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<ParameterStore>> ParameterStore::Create(
    const Options& options, ArenaLayout layout, ThreadPool* pool,
    SumsCallback on_sums) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<Optimizer> optimizer,
                             Optimizer::Create(options.job.optimizer()));
  return std::unique_ptr<ParameterStore>(
      new ParameterStore(options, std::move(layout), pool, std::move(optimizer),
                         std::move(on_sums)));
}

ParameterStore::ParameterStore(const Options& options, ArenaLayout layout,
                               ThreadPool* pool,
                               std::unique_ptr<Optimizer> optimizer,
                               SumsCallback on_sums)
    : options_(options),
      leaves_(static_cast<int>(options.job.batch().micro_batches())),
      clips_(options.job.clip_norm() > 0),
      layout_(std::move(layout)),
      pool_(pool),
      optimizer_(std::move(optimizer)),
      on_sums_(std::move(on_sums)),
      chunk_numbers_(layout_.ChunksOf(options.shard, options.servers)),
      buffers_(std::min(layout_.chunk_elements(), layout_.arena_elements())) {
  for (const int number : chunk_numbers_) {
    auto chunk = std::make_unique<Chunk>(leaves_);
    chunk->number = number;
    chunk->elements = layout_.ChunkSize(number);
    chunk->segments = layout_.ChunkSegments(number);
    for (int slot = 0; slot < optimizer_->slots(); ++slot) {
      chunk->slots.push_back(buffers_.Take());
      std::memset(chunk->slots.back().get(), 0,
                  chunk->elements * sizeof(float));
    }
    chunks_.push_back(std::move(chunk));
  }
  absl::MutexLock lock(&sums_mu_);
  sums_.mutable_sum_of_squares()->Resize(
      static_cast<int>(chunk_numbers_.size()), 0.0);
  sums_missing_ = static_cast<int>(chunk_numbers_.size());
}

ParameterStore::Chunk* ParameterStore::Find(int chunk) const {
  const auto place =
      std::lower_bound(chunk_numbers_.begin(), chunk_numbers_.end(), chunk);
  if (place == chunk_numbers_.end() || *place != chunk) return nullptr;
  return chunks_[place - chunk_numbers_.begin()].get();
}

absl::Status ParameterStore::CheckChunk(int chunk) const {
  if (Find(chunk) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "chunk ", chunk, " is not one of server ", options_.shard, "'s ",
      chunks_.size(), " of ", layout_.chunk_count(), " chunks"));
}

absl::Status ParameterStore::AddInitial(int number, Buffer values) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  Chunk* chunk = Find(number);
  absl::MutexLock lock(&chunk->mu);
  if (chunk->version >= 0) return absl::OkStatus();
  chunk->version = 0;
  chunk->weights = std::move(values);
  Publish(chunk);
  return absl::OkStatus();
}

absl::Status ParameterStore::AddContribution(int64_t step, int number, int node,
                                             NodeSum sum) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  if (!IsNode(node, leaves_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("node ", node, " is not in the tree of ", leaves_,
                     " leaves (batch.micro_batches)"));
  }
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrCat("contribution to step ",
                                                   step, " of chunk ", number,
                                                   ": steps count from 0"));
  }
  if (sum.weight < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("contribution of step ", step, ", chunk ", number,
                     " has negative weight ", sum.weight));
  }
  Chunk* chunk = Find(number);
  NodeSum complete;
  {
    absl::MutexLock lock(&chunk->mu);
    if (step < chunk->version || (step == chunk->version && chunk->closed)) {
      return absl::OkStatus();
    }
    if (step > chunk->version || step >= options_.steps) {
      return absl::FailedPreconditionError(absl::StrCat(
          "contribution to step ", step, " of chunk ", number,
          ", which is at version ", chunk->version, " of ", options_.steps));
    }
    chunk->aggregator.Add(node, std::move(sum));
    if (!chunk->aggregator.complete()) return absl::OkStatus();
    chunk->closed = true;
  }
  pool_->Run([this, chunk] {
    NodeSum total;
    {
      // Nobody else adds to a closed chunk, so the lock is free.
      absl::MutexLock lock(&chunk->mu);
      total = chunk->aggregator.Finish(chunk->elements);
    }
    Sum(chunk, std::move(total));
  });
  return absl::OkStatus();
}

void ParameterStore::Sum(Chunk* chunk, NodeSum sum) {
  chunk->sum = std::move(sum);
  const double squares =
      SumOfSquares(chunk->sum.gradient.get(), chunk->elements);
  const int place =
      static_cast<int>(std::lower_bound(chunk_numbers_.begin(),
                                        chunk_numbers_.end(), chunk->number) -
                       chunk_numbers_.begin());
  StepSums complete;
  bool last = false;
  {
    absl::MutexLock lock(&sums_mu_);
    sums_.set_sum_of_squares(place, squares);
    sums_.set_weight(chunk->sum.weight);
    if (chunk->number == 0) sums_.set_loss_sum(chunk->sum.loss_sum);
    last = --sums_missing_ == 0;
    if (last) {
      complete = sums_;
      sums_.set_step(sums_.step() + 1);
      sums_missing_ = static_cast<int>(chunk_numbers_.size());
    }
  }
  // Before the update: no chunk can reach the next step's sum until this
  // chunk's new version is out, so reports come in the order of steps.
  if (last) on_sums_(complete);
  if (!clips_) Update(chunk, /*norm=*/0);
}

void ParameterStore::SetGradientNorm(int64_t step, double norm) {
  if (!clips_) return;
  for (const auto& chunk : chunks_) {
    {
      absl::MutexLock lock(&chunk->mu);
      if (chunk->version != step || !chunk->closed) continue;
    }
    pool_->Run([this, chunk = chunk.get(), norm] { Update(chunk, norm); });
  }
}

void ParameterStore::Update(Chunk* chunk, double norm) {
  Buffer weights;
  int64_t step = 0;
  {
    absl::MutexLock lock(&chunk->mu);
    weights = chunk->weights;
    step = chunk->version;
  }
  Buffer next = buffers_.Take();
  std::vector<float*> slots;
  for (const Buffer& slot : chunk->slots) slots.push_back(slot.get());
  UpdateArguments update;
  update.gradient_sum = chunk->sum.gradient.get();
  update.gradient_scale = GradientScale(std::max<int64_t>(chunk->sum.weight, 1),
                                        options_.job.clip_norm(), norm);
  update.weights = weights.get();
  update.new_weights = next.get();
  update.slots = slots;
  update.segments = chunk->segments;
  update.learning_rate = LearningRateAt(options_.job, options_.steps, step);
  update.step = step;
  optimizer_->Update(update);
  ZeroGaps(*chunk, next.get());
  chunk->sum = NodeSum();
  absl::MutexLock lock(&chunk->mu);
  chunk->previous = std::move(chunk->weights);
  chunk->weights = std::move(next);
  chunk->version = step + 1;
  chunk->closed = false;
  Publish(chunk);
}

// The optimizer leaves the gaps between parameters alone, and the buffer held
// another chunk before.
void ParameterStore::ZeroGaps(const Chunk& chunk, float* weights) {
  int64_t written = 0;
  for (const ChunkSegment& segment : chunk.segments) {
    std::fill(weights + written, weights + segment.begin, 0.f);
    written = segment.end;
  }
  std::fill(weights + written, weights + chunk.elements, 0.f);
}

void ParameterStore::Publish(Chunk* chunk) {
  const WeightsVersion newest = {chunk->number, chunk->version, chunk->weights,
                                 chunk->elements};
  for (WeightsSubscriber* subscriber : chunk->subscribers) {
    subscriber->OnWeights(newest);
  }
}

void ParameterStore::Subscribe(WeightsSubscriber* subscriber) {
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    if (chunk->previous != nullptr) {
      subscriber->OnWeights({chunk->number, chunk->version - 1, chunk->previous,
                             chunk->elements});
    }
    if (chunk->version >= 0) {
      subscriber->OnWeights(
          {chunk->number, chunk->version, chunk->weights, chunk->elements});
    }
    chunk->subscribers.push_back(subscriber);
  }
}

void ParameterStore::Unsubscribe(WeightsSubscriber* subscriber) {
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    auto& list = chunk->subscribers;
    list.erase(std::remove(list.begin(), list.end(), subscriber), list.end());
  }
}

absl::StatusOr<WeightsVersion> ParameterStore::Read(int number,
                                                    int64_t version) const {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  const Chunk* chunk = Find(number);
  absl::MutexLock lock(&chunk->mu);
  if (version == chunk->version && chunk->weights != nullptr) {
    return WeightsVersion{number, version, chunk->weights, chunk->elements};
  }
  if (version == chunk->version - 1 && chunk->previous != nullptr) {
    return WeightsVersion{number, version, chunk->previous, chunk->elements};
  }
  return absl::FailedPreconditionError(
      absl::StrCat("chunk ", number, " is at version ", chunk->version,
                   "; version ", version, " is not there"));
}

}  // namespace tributary
