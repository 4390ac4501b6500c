#include "common/update/chunk_weights.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "common/numerics/half.h"
#include "common/numerics/streaming_copy.h"
#include "common/update/aggregation/chunk_aggregator.h"

namespace tributary {
namespace {

EncodedFloats Float32(Buffer values, int64_t elements) {
  const void* const data = values.get();
  return {FLOAT32, data, PayloadBytes(FLOAT32, elements), std::move(values)};
}

absl::string_view Payload(const EncodedFloats& floats) {
  return {static_cast<const char*>(floats.data),
          static_cast<size_t>(floats.bytes)};
}

}  // namespace

ChunkWeights::ChunkWeights(const ExchangeSpec* exchange, int64_t elements,
                           BufferPool* buffers, BufferPool* halves)
    : exchange_(*exchange),
      dtype_(exchange->wire_dtype()),
      elements_(elements),
      buffers_(buffers),
      halves_(halves) {}

void ChunkWeights::Initialize(int64_t version, Buffer values) {
  version_ = version;
  newest_.values = std::move(values);
  if (exchange_.has_compression()) newest_.published = newest_.values;
  CopyToShared(version_, &newest_);
}

ChunkWeights::Next ChunkWeights::Begin(bool for_streams) {
  Buffer before = std::move(previous_.published);
  previous_ = Version();
  Next next;
  next.from = newest_.values;
  next.published_from = newest_.published;
  if (exchange_.has_compression()) {
    // Reuse the buffer unless a stream is still sending it.
    next.published_before = before.use_count() == 1;
    next.published =
        next.published_before ? std::move(before) : buffers_->Take();
  }
  const Buffer& place = shared_[(version_ + 1) % 2];
  next.dtype = dtype_;
  if (dtype_ == ExchangeSpec::FLOAT32) {
    if (place != nullptr) next.place = MemoryPlace::kShared;
    next.values = place != nullptr ? place : buffers_->Take();
    return next;
  }
  next.values = buffers_->Take();
  next.rounded = place;
  if (for_streams) next.halves = halves_->Take();
  return next;
}

void ChunkWeights::Next::Write(int64_t begin, int64_t count,
                               const float* from) const {
  const bool streams = from != values.get() + begin;
  if (streams) StreamingCopy(from, count, values.get() + begin);
  if (halves != nullptr) {
    char* const to = reinterpret_cast<char*>(halves.get());
    EncodeHalf(dtype, from, to + 2 * begin, count);
  }
  if (rounded == nullptr) return;
  float* const to = rounded.get() + begin;
  if (streams) {
    alignas(64) float block[TreeSum::kBlock];
    RoundedCopy(dtype, from, block, count);
    StreamingCopy(block, count, to);
  } else {
    RoundedCopy(dtype, from, to, count);
  }
}

void ChunkWeights::Complete(Next* next) const {
  if (!exchange_.has_compression()) return;
  const float* const from = next->published_from.get();
  next->difference = CompressDifference(exchange_.compression(), from,
                                        next->values.get(), elements_);
  float* const published = next->published.get();
  if (next->published_before) {
    CopyCompressed(difference_.encoding, Payload(difference_), from, published,
                   elements_);
  } else {
    std::copy_n(from, elements_, published);
  }
  AddCompressed(next->difference.encoding, Payload(next->difference), published,
                elements_);
}

void ChunkWeights::Finish(Next next) {
  ++version_;
  previous_ = std::move(newest_);
  newest_ = Version();
  const Buffer& place = shared_[version_ % 2];
  const bool in_place =
      place == nullptr || place == next.values || place == next.rounded;
  newest_.values = std::move(next.values);
  newest_.published = std::move(next.published);
  newest_.on_device = next.place == MemoryPlace::kDevice;
  difference_ = std::move(next.difference);
  if (next.halves != nullptr) {
    const Encoding encoding = WeightsEncoding(exchange_);
    const void* const data = next.halves.get();
    newest_.encoded = {encoding, data, PayloadBytes(encoding, elements_),
                       std::move(next.halves)};
  }
  // Share was called while this version was being computed.
  if (!in_place) CopyToShared(version_, &newest_);
}

const ChunkWeights::Version* ChunkWeights::Find(int64_t version) const {
  const Version* found = nullptr;
  if (version == version_) found = &newest_;
  if (version == version_ - 1) found = &previous_;
  return found == nullptr || found->values == nullptr ? nullptr : found;
}

ChunkWeights::Version* ChunkWeights::Find(int64_t version) {
  const ChunkWeights& self = *this;
  return const_cast<Version*>(self.Find(version));
}

EncodedFloats ChunkWeights::Encoded(int64_t version) {
  Version* const found = Find(version);
  if (found == nullptr || !FetchIfNeeded(version, found)) {
    return EncodedFloats();
  }
  if (found->published != nullptr) {
    return Float32(found->published, elements_);
  }
  if (dtype_ == ExchangeSpec::FLOAT32) return Exact(version);
  if (found->encoded.data == nullptr) {
    const Encoding encoding = WeightsEncoding(exchange_);
    Buffer halves = halves_->Take();
    EncodeHalf(dtype_, found->values.get(), halves.get(), elements_);
    const void* const data = halves.get();
    found->encoded = {encoding, data, PayloadBytes(encoding, elements_),
                      std::move(halves)};
  }
  return found->encoded;
}

EncodedFloats ChunkWeights::Exact(int64_t version) {
  Version* const found = Find(version);
  if (found == nullptr || !FetchIfNeeded(version, found)) {
    return EncodedFloats();
  }
  const Buffer& values = found->values;
  if (values != shared_[0] && values != shared_[1]) {
    return Float32(values, elements_);
  }
  // Copied, because the version after the next one overwrites it, possibly
  // while a stream is still sending it.
  if (found->encoded.data == nullptr) {
    found->encoded = Float32(CopyOf(values), elements_);
  }
  return found->encoded;
}

void ChunkWeights::Share(Buffer even, Buffer odd) {
  shared_[0] = std::move(even);
  shared_[1] = std::move(odd);
  // An update under way keeps the old buffer alive and reads from it.
  for (const int64_t version : {version_, version_ - 1}) {
    Version* const found = Find(version);
    if (found != nullptr) CopyToShared(version, found);
  }
}

bool ChunkWeights::BringToHost(int64_t version) {
  Version* const found = Find(version);
  return found != nullptr && FetchIfNeeded(version, found);
}

bool ChunkWeights::FetchIfNeeded(int64_t version, Version* place) const {
  if (!place->on_device) return true;
  if (!fetch_(version, place->values.get()).ok()) return false;
  place->on_device = false;
  return true;
}

void ChunkWeights::CopyToShared(int64_t version, Version* from) {
  const Buffer& place = shared_[version % 2];
  if (place == nullptr || !FetchIfNeeded(version, from)) return;
  RoundedCopy(dtype_, from->values.get(), place.get(), elements_);
  if (dtype_ == ExchangeSpec::FLOAT32) from->values = place;
}

Buffer ChunkWeights::CopyOf(const Buffer& values) const {
  Buffer copy = buffers_->Take();
  std::copy_n(values.get(), elements_, copy.get());
  return copy;
}

}  // namespace tributary
