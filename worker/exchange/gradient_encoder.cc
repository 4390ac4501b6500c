#include "worker/exchange/gradient_encoder.h"

#include <algorithm>
#include <utility>

#include "common/vector_ops.h"

namespace tributary {

GradientEncoder::GradientEncoder(const ExchangeSpec& exchange,
                                 const ArenaLayout* layout)
    : exchange_(exchange),
      encoding_(GradientEncoding(exchange)),
      layout_(layout),
      // Two to a float.
      halves_(
          (std::min(layout->chunk_elements(), layout->arena_elements()) + 1) /
          2),
      residuals_(exchange.has_compression()
                     ? new Residual[layout->chunk_count()]
                     : nullptr) {}

EncodedFloats GradientEncoder::Encode(const NodeChunk& sum) {
  const float* const gradient =
      sum.arena.get() + layout_->ChunkBegin(sum.chunk);
  const int64_t elements = layout_->ChunkSize(sum.chunk);
  if (residuals_ != nullptr) {
    return EncodeWithFeedback(gradient, elements, &residuals_[sum.chunk]);
  }
  const int64_t bytes = PayloadBytes(encoding_, elements);
  if (encoding_ == FLOAT32) return {FLOAT32, gradient, bytes, sum.arena};
  Buffer halves = halves_.Take();
  EncodeHalf(DtypeOf(encoding_), gradient, halves.get(), elements);
  const void* const data = halves.get();
  return {encoding_, data, bytes, std::move(halves)};
}

EncodedFloats GradientEncoder::EncodeWithFeedback(const float* gradient,
                                                  int64_t elements,
                                                  Residual* residual) {
  absl::MutexLock lock(&residual->mu);
  residual->values.resize(elements);
  AddInto(gradient, residual->values.data(), elements);
  return Compress(exchange_.compression(), residual->values.data(), elements);
}

}  // namespace tributary
