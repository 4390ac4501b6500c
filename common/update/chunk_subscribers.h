// The subscribers to the versions of one chunk.
#ifndef TRIBUTARY_COMMON_UPDATE_CHUNK_SUBSCRIBERS_H_
#define TRIBUTARY_COMMON_UPDATE_CHUNK_SUBSCRIBERS_H_

#include <cstdint>
#include <vector>

#include "common/parameters/memory_view.h"
#include "common/update/chunk_weights.h"
#include "common/update/consistency/consistency_policy.h"
#include "common/update/weights_subscriber.h"

namespace tributary {

// Passes the versions of one chunk to its subscribers, each in the form in
// which the subscriber reads them. Not thread-safe.
class ChunkSubscribers {
 public:
  // `weights` are the weights of chunk number `chunk`, and must outlive this
  // object.
  ChunkSubscribers(int chunk, ChunkWeights* weights)
      : chunk_(chunk), weights_(*weights) {}

  // Adds a subscriber that reads weights from memory of the kind `place` (see
  // UpdateEngine::Subscribe), and passes the existing versions to it.
  void Add(WeightsSubscriber* subscriber, MemoryPlace place);
  void Remove(WeightsSubscriber* subscriber);

  // Passes the newest version to all subscribers. See WeightsVersion for
  // `more`.
  void Publish(bool more);
  // Sends the outcome of a contribution to the subscriber whose worker has sent
  // the contribution.
  void Answer(const ContributionOutcome& answer) const;

  // Returns true if some subscriber needs the weights as a message.
  bool AnyReadsMessages() const;
  // Returns true if there are subscribers, and all of them read the weights
  // from the device's memory.
  bool AllReadDevice() const;
  // Returns WeightsSubscriber::incarnation of all subscribers.
  std::vector<int64_t> Incarnations() const;

 private:
  struct Subscription {
    WeightsSubscriber* subscriber = nullptr;
    MemoryPlace place = MemoryPlace::kHost;
  };

  // Passes the version to a subscriber, unless this version cannot be copied
  // from the device to where the subscriber reads it. `difference` is its
  // difference to the version before, which the subscriber has; without data
  // if the subscriber needs all weights.
  void Give(const Subscription& to, WeightsVersion version,
            const EncodedFloats& difference);

  const int chunk_;
  ChunkWeights& weights_;
  std::vector<Subscription> subscriptions_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CHUNK_SUBSCRIBERS_H_
