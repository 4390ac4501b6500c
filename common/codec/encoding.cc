#include "common/codec/encoding.h"

#include <algorithm>
#include <utility>

#include "common/codec/eight_bit.h"
#include "common/codec/top_k.h"

namespace tributary {
namespace {

Encoding EncodingOf(const CompressionSpec& compression) {
  return compression.has_top_k() ? TOP_K : EIGHT_BIT;
}

EncodedFloats Compressed(const CompressionSpec& compression,
                         std::string bytes) {
  auto payload = std::make_shared<const std::string>(std::move(bytes));
  EncodedFloats encoded;
  encoded.encoding = EncodingOf(compression);
  encoded.data = payload->data();
  encoded.bytes = static_cast<int64_t>(payload->size());
  encoded.owner = std::move(payload);
  return encoded;
}

}  // namespace

Encoding GradientEncoding(const ExchangeSpec& exchange) {
  return exchange.has_compression() ? EncodingOf(exchange.compression())
                                    : WeightsEncoding(exchange);
}

Encoding WeightsEncoding(const ExchangeSpec& exchange) {
  switch (exchange.wire_dtype()) {
    case ExchangeSpec::BFLOAT16:
      return BFLOAT16;
    case ExchangeSpec::FLOAT16:
      return FLOAT16;
    default:
      return FLOAT32;
  }
}

WireDtype DtypeOf(Encoding encoding) {
  switch (encoding) {
    case BFLOAT16:
      return ExchangeSpec::BFLOAT16;
    case FLOAT16:
      return ExchangeSpec::FLOAT16;
    default:
      return ExchangeSpec::FLOAT32;
  }
}

int64_t PayloadBytes(Encoding encoding, int64_t elements) {
  switch (encoding) {
    case TOP_K:
      return 8 * elements;
    case EIGHT_BIT:
      return EightBitBytes(elements);
    default:
      return elements * WireDtypeBytes(DtypeOf(encoding));
  }
}

EncodedFloats CompressWithFeedback(const CompressionSpec& compression,
                                   const float* gradient, float* residual,
                                   int64_t count) {
  return Compressed(compression,
                    compression.has_top_k()
                        ? EncodeTopK(compression.top_k().fraction(), gradient,
                                     residual, count)
                        : EncodeEightBit(gradient, residual, count));
}

EncodedFloats CompressDifference(const CompressionSpec& compression,
                                 const float* from, const float* to,
                                 int64_t count) {
  return Compressed(compression,
                    compression.has_top_k()
                        ? EncodeTopKDifference(compression.top_k().fraction(),
                                               from, to, count)
                        : EncodeEightBitDifference(from, to, count));
}

void AddCompressed(Encoding encoding, absl::string_view payload, float* values,
                   int64_t count) {
  encoding == TOP_K ? AddTopK(payload, values)
                    : AddEightBit(payload, values, count);
}

void CopyCompressed(Encoding encoding, absl::string_view payload,
                    const float* from, float* to, int64_t count) {
  if (encoding == TOP_K) {
    CopyTopK(payload, from, to);
  } else {
    std::copy_n(from, count, to);
  }
}

}  // namespace tributary
