// Encoding of gradient sums for the wire.
#ifndef TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_GRADIENT_ENCODER_H_
#define TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_GRADIENT_ENCODER_H_

#include <memory>
#include <optional>

#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/codec/encoding.h"
#include "common/os/shared_memory.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "worker/exchange/step_gradients.h"

namespace tributary {

// Encodes gradient sums. Thread-safe.
//
// With exchange.compression, keeps the part of each chunk's gradient that
// compression has dropped, and adds it to the next sum of that chunk before
// compressing it (error feedback: Seide et al., 2014). The server thus receives
// the whole gradient eventually, except sums that the server drops as
// duplicates, and the residual that remains when the worker exits.
class GradientEncoder {
 public:
  // `layout` must outlive this object. `exchange` must be valid.
  GradientEncoder(const ExchangeSpec& exchange, const ArenaLayout* layout);

  // Encodes the elements of the chunk in `sum`, which is not modified. With
  // FLOAT32 and without compression, the result refers to the memory of `sum`,
  // and otherwise to a copy.
  EncodedFloats Encode(const NodeChunk& sum);

 private:
  // Returns the part of `residuals_` that belongs to the chunk.
  float* Residual(int chunk) const;

  const ExchangeSpec exchange_;
  const Encoding encoding_;
  const ArenaLayout* const layout_;
  BufferPool halves_;
  // The parts of the gradients that compression has dropped so far, laid out as
  // `layout_` describes. Uses huge pages, because every step passes over all of
  // this memory. Absent without compression.
  std::optional<PrivatePages> residuals_;
  const std::unique_ptr<absl::Mutex[]> residual_locks_;  // Indexed by chunk.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_PARAMETER_SERVER_GRADIENT_ENCODER_H_
