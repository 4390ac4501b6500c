// What a UpdateEngine gives to its subscribers, and the memory that it shares
// with workers.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/update/pinned_arenas.h"
#include "common/update/update_engine.h"

namespace tributary {

void UpdateEngine::Publish(Chunk* chunk, bool more) {
  ChunkWeights& weights = chunk->weights;
  WeightsVersion newest;
  newest.chunk = chunk->number;
  newest.version = weights.version();
  newest.more = more;
  for (const Subscription& subscription : chunk->subscriptions) {
    if (subscription.place == Place::kSharedMemory &&
        !weights.BringToHost(newest.version)) {
      continue;
    }
    if (subscription.place != Place::kStream) {
      subscription.subscriber->OnWeights(newest);
      continue;
    }
    WeightsVersion sent = newest;
    sent.values = weights.Encoded(newest.version);
    if (sent.values.data == nullptr) continue;
    sent.difference = weights.difference();
    if (sent.difference.data != nullptr) {
      sent.previous = weights.Encoded(newest.version - 1);
    }
    subscription.subscriber->OnWeights(sent);
  }
}

absl::Time UpdateEngine::TraceTime() const {
  return options_.trace == nullptr ? absl::Time() : MonotonicNow();
}

void UpdateEngine::TraceContribution(Chunk* chunk, int64_t step, int node) {
  if (options_.trace != nullptr && options_.trace->Wants(step)) {
    chunk->traced.Add(step, node);
  }
}

void UpdateEngine::TracePublication(const Chunk& chunk, int64_t step,
                                    absl::Time begin) {
  if (options_.trace == nullptr || !options_.trace->Wants(step)) return;
  std::vector<int64_t> receivers;
  for (const Subscription& subscription : chunk.subscriptions) {
    receivers.push_back(subscription.subscriber->incarnation());
  }
  options_.trace->Published(step, chunk.number, receivers, begin);
}

absl::StatusOr<SharedMemoryOffer> UpdateEngine::ShareWeights() {
  absl::MutexLock share_lock(&share_mu_);
  if (memory_ != nullptr) return memory_->offer();
  const int64_t span =
      RoundUpToPage(layout_.arena_elements() * int64_t{sizeof(float)});
  TRIBUTARY_ASSIGN_OR_RETURN(memory_, SharedMemory::Create(2 * span));
  auto* const arenas = reinterpret_cast<float*>(memory_->data());
  const std::shared_ptr<const void> pinned =
      PinLater(Buffer(memory_, arenas), static_cast<size_t>(memory_->bytes()),
               pin_memory_, pool_);
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    const auto place = [&](int arena) {
      return Buffer(pinned, arenas + arena * span / int64_t{sizeof(float)} +
                                layout_.ChunkBegin(chunk->number));
    };
    chunk->weights.Share(place(0), place(1));
  }
  return memory_->offer();
}

void UpdateEngine::Subscribe(WeightsSubscriber* subscriber, Place place) {
  // Before any call of OnWeights with WeightsVersion::more, so that OnBurstEnd
  // follows.
  {
    absl::MutexLock lock(&subscribers_mu_);
    subscribers_.push_back(subscriber);
  }
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    ChunkWeights& weights = chunk->weights;
    for (const int64_t version : {weights.version() - 1, weights.version()}) {
      if (!weights.Has(version)) continue;
      WeightsVersion there;
      there.chunk = chunk->number;
      there.version = version;
      if (place == Place::kStream) {
        there.values = weights.Encoded(version);
        if (there.values.data == nullptr) continue;
      }
      if (place == Place::kSharedMemory && !weights.BringToHost(version)) {
        continue;
      }
      subscriber->OnWeights(there);
    }
    chunk->subscriptions.push_back({subscriber, place});
  }
}

void UpdateEngine::Unsubscribe(WeightsSubscriber* subscriber) {
  for (const auto& chunk : chunks_) {
    absl::MutexLock lock(&chunk->mu);
    auto& list = chunk->subscriptions;
    list.erase(std::remove_if(list.begin(), list.end(),
                              [subscriber](const Subscription& s) {
                                return s.subscriber == subscriber;
                              }),
               list.end());
  }
  absl::MutexLock lock(&subscribers_mu_);
  subscribers_.erase(
      std::remove(subscribers_.begin(), subscribers_.end(), subscriber),
      subscribers_.end());
}

absl::StatusOr<WeightsVersion> UpdateEngine::Read(int number, int64_t version) {
  TRIBUTARY_RETURN_IF_ERROR(CheckChunk(number));
  Chunk* chunk = Find(number);
  absl::MutexLock lock(&chunk->mu);
  WeightsVersion exact;
  exact.chunk = number;
  exact.version = version;
  exact.values = chunk->weights.Exact(version);
  if (exact.values.data == nullptr && chunk->weights.Has(version)) {
    return Missing(*chunk);
  }
  if (exact.values.data == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "chunk ", number, " is at version ", chunk->weights.version(),
        "; version ", version, " is not there"));
  }
  return exact;
}

}  // namespace tributary
