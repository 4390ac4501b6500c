#include "worker/exchange/parameter_server/gradient_encoder.h"

#include <algorithm>
#include <utility>

namespace tributary {

GradientEncoder::GradientEncoder(const ExchangeSpec& exchange,
                                 const ArenaLayout* layout)
    : exchange_(exchange),
      encoding_(GradientEncoding(exchange)),
      layout_(layout),
      // Two half-precision values occupy one float.
      halves_(
          (std::min(layout->chunk_elements(), layout->arena_elements()) + 1) /
          2),
      residual_locks_(exchange.has_compression()
                          ? new absl::Mutex[layout->chunk_count()]
                          : nullptr) {
  if (exchange.has_compression()) {
    residuals_.emplace(layout->arena_elements() * int64_t{sizeof(float)});
  }
}

float* GradientEncoder::Residual(int chunk) const {
  return reinterpret_cast<float*>(residuals_->data()) +
         layout_->ChunkBegin(chunk);
}

EncodedFloats GradientEncoder::Encode(const NodeChunk& sum) {
  const float* const gradient =
      sum.arena.get() + layout_->ChunkBegin(sum.chunk);
  const int64_t elements = layout_->ChunkSize(sum.chunk);
  if (residuals_.has_value()) {
    absl::MutexLock lock(&residual_locks_[sum.chunk]);
    return CompressWithFeedback(exchange_.compression(), gradient,
                                Residual(sum.chunk), elements);
  }
  const int64_t bytes = PayloadBytes(encoding_, elements);
  if (encoding_ == FLOAT32) return {FLOAT32, gradient, bytes, sum.arena};
  Buffer halves = halves_.Take();
  EncodeHalf(DtypeOf(encoding_), gradient, halves.get(), elements);
  const void* const data = halves.get();
  return {encoding_, data, bytes, std::move(halves)};
}

}  // namespace tributary
