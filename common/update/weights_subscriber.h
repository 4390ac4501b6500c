// Receives the versions of weights that an UpdateEngine publishes.
#ifndef TRIBUTARY_COMMON_UPDATE_WEIGHTS_SUBSCRIBER_H_
#define TRIBUTARY_COMMON_UPDATE_WEIGHTS_SUBSCRIBER_H_

#include <atomic>
#include <cstdint>

#include "common/codec/encoding.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// One version of one chunk. Immutable and reference-counted.
struct WeightsVersion {
  int chunk = 0;
  int64_t version = -1;
  // All weights of this version. Has no data for subscribers that read the
  // weights from shared memory or from the memory of the device.
  EncodedFloats values;
  // With compression, the difference to the previous version, for workers that
  // have that version. If it has no data, `values` must be sent.
  EncodedFloats difference;
  // All weights of the previous version. Has data only if `difference` has
  // data.
  EncodedFloats previous;
  // True if more versions may follow soon. OnBurstEnd is called after the last
  // of them, or after this version if none follows.
  bool more = false;
};

// Receives every new version of the chunks of the engine to which it has
// subscribed.
class WeightsSubscriber {
 public:
  virtual ~WeightsSubscriber() = default;
  // Returns a number that is unique in this process and never reused.
  int64_t id() const { return id_; }
  // Returns the incarnation (the number that a worker got when it joined) of
  // the worker that receives the weights, or 0 if the incarnation is unknown.
  // Used for the trace.
  virtual int64_t incarnation() const { return 0; }
  // Called with each new version of each chunk. The versions of a chunk come in
  // order. Called with the chunk's lock held: must not block and must not call
  // the engine.
  virtual void OnWeights(const WeightsVersion& weights) = 0;
  // In mode `asynchronous`, called with the outcome of a contribution that this
  // subscriber's worker sent. `version` is the newest version of the chunk. The
  // restrictions of OnWeights apply.
  virtual void OnOutcome(const Outcome& /*outcome*/, int64_t /*version*/) {}
  // Called when no update of any chunk is running or queued on the engine's
  // pool, with a lock of the engine held. The restrictions of OnWeights apply.
  virtual void OnBurstEnd() {}

 private:
  static int64_t NextId() {
    static std::atomic<int64_t> last{0};
    return ++last;
  }
  const int64_t id_ = NextId();
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_WEIGHTS_SUBSCRIBER_H_
