#include "worker/exchange/parameter_server/received_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/encoding.h"
#include "common/numerics/streaming_copy.h"

namespace tributary {

ReceivedWeights::ReceivedWeights(const ExchangeSpec& exchange,
                                 const ArenaLayout* layout)
    : compressed_(exchange.has_compression()),
      whole_encoding_(WeightsEncoding(exchange)),
      difference_encoding_(GradientEncoding(exchange)),
      layout_(layout),
      streams_(layout->arena_elements() * int64_t{sizeof(float)} >=
               kStreamingBytes),
      copies_(compressed_ ? layout->chunk_count() : 0) {
  if (compressed_) {
    values_.emplace(layout->arena_elements() * int64_t{sizeof(float)});
  }
}

float* ReceivedWeights::Values(int chunk) const {
  return reinterpret_cast<float*>(values_->data()) + layout_->ChunkBegin(chunk);
}

absl::StatusOr<ReceivedFloats> ReceivedWeights::Take(const Weights& weights,
                                                     ReceivedPayload payload) {
  const Encoding expected =
      weights.difference() ? difference_encoding_ : whole_encoding_;
  if (weights.encoding() != expected ||
      (weights.difference() && !compressed_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        weights.difference() ? "a difference" : "weights", " of chunk ",
        weights.chunk(), " in encoding ", Encoding_Name(weights.encoding()),
        ", which the job does not use"));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      ReceivedFloats floats,
      ReceivedFloats::Create(weights.encoding(), std::move(payload),
                             layout_->ChunkSize(weights.chunk())));
  if (compressed_) TRIBUTARY_RETURN_IF_ERROR(Apply(weights, floats));
  return floats;
}

absl::Status ReceivedWeights::Apply(const Weights& weights,
                                    const ReceivedFloats& floats) {
  Copy& copy = copies_[weights.chunk()];
  if (weights.version() <= copy.version) return absl::OkStatus();
  if (weights.difference() && weights.version() != copy.version + 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a difference to version ", weights.version(), " of chunk ",
        weights.chunk(), ", which is at version ", copy.version));
  }
  const int64_t elements = layout_->ChunkSize(weights.chunk());
  std::optional<ReceivedFloats>& change = copy.changes[weights.version() % 2];
  if (weights.difference()) {
    floats.AddTo(Values(weights.chunk()));
    change = floats;
  } else {
    floats.Read(0, elements, Values(weights.chunk()));
    change.reset();
  }
  copy.version = weights.version();
  return absl::OkStatus();
}

void ReceivedWeights::Write(int chunk, const ReceivedFloats& floats,
                            float* to) {
  const int64_t elements = layout_->ChunkSize(chunk);
  if (!compressed_) {
    if (streams_) {
      floats.Stream(to);
    } else {
      floats.Read(0, elements, to);
    }
    return;
  }
  Copy& copy = copies_[chunk];
  const float* const values = Values(chunk);
  auto& written = copy.written[copy.version % 2];
  if (written.place == to && written.version == copy.version - 2 &&
      copy.changes[0].has_value() && copy.changes[1].has_value()) {
    for (const auto& change : copy.changes) change->CopyChanged(values, to);
  } else {
    std::copy_n(values, elements, to);
  }
  written.place = to;
  written.version = copy.version;
}

}  // namespace tributary
