// Decodes weight updates, full or delta.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_RECEIVED_WEIGHTS_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_RECEIVED_WEIGHTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/shared_memory.h"
#include "common/parameters/arena_layout.h"
#include "common/stream/received_floats.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Decodes weights from servers. With exchange.compression, servers send deltas,
// which are relative to the previous version. This class applies them to its
// own copy of the weights, because the place to which the weights are written
// may have skipped the version that a delta is relative to. Without compression
// it keeps no copy.
//
// Calls for different chunks may be concurrent; calls for one chunk must not.
class ReceivedWeights {
 public:
  // `layout` must outlive this object. `exchange` must be valid.
  ReceivedWeights(const ExchangeSpec& exchange, const ArenaLayout* layout);

  // Decodes the payload of `weights`, whose chunk must exist in the layout. The
  // same message may be passed more than once. Returns InvalidArgument, with
  // the reason, for malformed messages.
  absl::StatusOr<ReceivedFloats> Take(const Weights& weights,
                                      ReceivedPayload payload);
  // Writes to `to` the values that the chunk has after the newest message for
  // it. `floats` is the result of Take for that message. Must be called before
  // the next Take for this chunk. Between two calls with the same `to`, no
  // other code may write there.
  void Write(int chunk, const ReceivedFloats& floats, float* to);

 private:
  // The state of this class for one chunk.
  struct Copy {
    int64_t version = -1;
    // The deltas that led to the newest two versions, indexed by version % 2;
    // nullopt for a version that was received in full.
    std::optional<ReceivedFloats> changes[2];
    // Destinations to which Write wrote the newest two versions, indexed by
    // version % 2. They allow Write to update only the values that have
    // changed.
    struct {
      const float* place = nullptr;
      int64_t version = -1;
    } written[2];
  };

  float* Values(int chunk) const;
  absl::Status Apply(const Weights& weights, const ReceivedFloats& floats);

  const bool compressed_;
  const Encoding whole_encoding_;
  const Encoding difference_encoding_;
  const ArenaLayout* const layout_;
  // True if Write uses non-temporal stores because the arena exceeds the
  // caches.
  const bool streams_;
  // Weights that deltas apply to, laid out as `layout_` describes. Present only
  // with compression. Uses huge pages because every step touches a little of
  // each page.
  std::optional<PrivatePages> values_;
  std::vector<Copy> copies_;  // Indexed by chunk.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_RECEIVED_WEIGHTS_H_
