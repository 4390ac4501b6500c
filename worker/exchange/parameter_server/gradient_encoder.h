// Makes of gradient sums what goes on the wire.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_GRADIENT_ENCODER_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_GRADIENT_ENCODER_H_

#include <memory>
#include <optional>

#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/codec/encoding.h"
#include "common/os/shared_memory.h"
#include "common/parameters/parameter_table.h"
#include "proto/job.pb.h"
#include "worker/exchange/subtree_reducer.h"

namespace tributary {

// Thread-safe.
//
// With exchange.compression it keeps, for each chunk, what it has left out so
// far, and adds it to the next sum of that chunk before compressing (error
// feedback: Seide et al., 2014). All of a gradient arrives in the end, but for
// what is left here when the worker ends, and what a contribution brought that
// the server dropped as a duplicate.
class GradientEncoder {
 public:
  // `layout` must outlive this object; `exchange` is valid.
  GradientEncoder(const ExchangeSpec& exchange, const ArenaLayout* layout);

  // The chunk's elements of `sum`, which is not changed: in place for FLOAT32,
  // else a copy.
  EncodedFloats Encode(const NodeChunk& sum);

 private:
  float* Residual(int chunk) const;

  const ExchangeSpec exchange_;
  const Encoding encoding_;
  const ArenaLayout* const layout_;
  BufferPool halves_;
  // Laid out as the arena. In huge pages: every step goes through all of it.
  // Absent without compression.
  std::optional<PrivatePages> residuals_;
  const std::unique_ptr<absl::Mutex[]> residual_locks_;  // By chunk.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_GRADIENT_ENCODER_H_
