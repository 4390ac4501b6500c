// Makes weights of what servers send.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_RECEIVED_WEIGHTS_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_RECEIVED_WEIGHTS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/os/shared_memory.h"
#include "common/parameters/parameter_table.h"
#include "common/transport/received_floats.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// With exchange.compression servers send differences. They are applied to a
// copy of the weights that is kept here, because the arenas in which the
// weights are used may have skipped the version that a difference is relative
// to. Otherwise nothing is kept.
//
// Calls for different chunks may come from different threads at once.
class ReceivedWeights {
 public:
  // `layout` must outlive this object; `exchange` is valid.
  ReceivedWeights(const ExchangeSpec& exchange, const ArenaLayout* layout);

  // The payload of `weights`, whose chunk is one of the layout's.
  // InvalidArgument, saying why, for what no honest server sends. A message may
  // be given twice.
  absl::StatusOr<ReceivedFloats> Take(const Weights& weights,
                                      ReceivedPayload payload);
  // Writes the values of the chunk, at the version for which Take has returned
  // `floats`, before the next Take for this chunk. Between two calls with the
  // same `to` nobody else may write there.
  void Write(int chunk, const ReceivedFloats& floats, float* to);

 private:
  struct Copy {
    int64_t version = -1;
    // The differences that led to the newest two versions, by version % 2.
    std::optional<ReceivedFloats> changes[2];
    // What lies in the worker's arenas, by version % 2: then only what has
    // changed since is written.
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
  const bool streams_;  // Into an arena that no cache would hold.
  // Of compressed_ jobs only: the copies' values, laid out as the arena. In
  // huge pages: every step touches a little of each.
  std::optional<PrivatePages> values_;
  std::vector<Copy> copies_;  // By chunk.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_RECEIVED_WEIGHTS_H_
