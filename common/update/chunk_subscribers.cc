#include "common/update/chunk_subscribers.h"

#include <algorithm>

namespace tributary {

void ChunkSubscribers::Add(WeightsSubscriber* subscriber, MemoryPlace place) {
  const int64_t newest = weights_.version();
  for (const int64_t version : {newest - 1, newest}) {
    if (!weights_.Has(version)) continue;
    WeightsVersion there;
    there.chunk = chunk_;
    there.version = version;
    Give({subscriber, place}, there, /*difference=*/EncodedFloats());
  }
  subscriptions_.push_back({subscriber, place});
}

void ChunkSubscribers::Remove(WeightsSubscriber* subscriber) {
  subscriptions_.erase(
      std::remove_if(subscriptions_.begin(), subscriptions_.end(),
                     [subscriber](const Subscription& subscription) {
                       return subscription.subscriber == subscriber;
                     }),
      subscriptions_.end());
}

void ChunkSubscribers::Publish(bool more) {
  WeightsVersion newest;
  newest.chunk = chunk_;
  newest.version = weights_.version();
  newest.more = more;
  for (const Subscription& subscription : subscriptions_) {
    Give(subscription, newest, weights_.difference());
  }
}

void ChunkSubscribers::Give(const Subscription& to, WeightsVersion version,
                            const EncodedFloats& difference) {
  if (to.place == MemoryPlace::kShared &&
      !weights_.BringToHost(version.version)) {
    return;
  }
  if (to.place == MemoryPlace::kHost) {
    version.values = weights_.Encoded(version.version);
    if (version.values.data == nullptr) return;
    version.difference = difference;
    if (difference.data != nullptr) {
      version.previous = weights_.Encoded(version.version - 1);
    }
  }
  to.subscriber->OnWeights(version);
}

void ChunkSubscribers::Answer(const ContributionOutcome& answer) const {
  if (answer.receiver == 0) return;
  Outcome outcome;
  outcome.set_step(answer.step);
  outcome.set_chunk(chunk_);
  outcome.set_refused(answer.refused);
  outcome.set_age(answer.age);
  // The sender may have disconnected.
  for (const Subscription& subscription : subscriptions_) {
    if (subscription.subscriber->id() == answer.receiver) {
      subscription.subscriber->OnOutcome(outcome, weights_.version());
    }
  }
}

bool ChunkSubscribers::AnyReadsMessages() const {
  return std::any_of(
      subscriptions_.begin(), subscriptions_.end(),
      [](const Subscription& s) { return s.place == MemoryPlace::kHost; });
}

bool ChunkSubscribers::AllReadDevice() const {
  return !subscriptions_.empty() &&
         std::all_of(subscriptions_.begin(), subscriptions_.end(),
                     [](const Subscription& s) {
                       return s.place == MemoryPlace::kDevice;
                     });
}

std::vector<int64_t> ChunkSubscribers::Incarnations() const {
  std::vector<int64_t> incarnations;
  for (const Subscription& subscription : subscriptions_) {
    incarnations.push_back(subscription.subscriber->incarnation());
  }
  return incarnations;
}

}  // namespace tributary
