// Encodings of payloads for a job's exchange.wire_dtype and
// exchange.compression; see Encoding in proto/parameter_server.proto.
#ifndef TRIBUTARY_COMMON_CODEC_ENCODING_H_
#define TRIBUTARY_COMMON_CODEC_ENCODING_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/numerics/half.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Encoded floats as they are sent: their encoding, their bytes, and the owner
// of the memory.
struct EncodedFloats {
  Encoding encoding = FLOAT32;
  const void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// Returns the encoding of contributions.
Encoding GradientEncoding(const ExchangeSpec& exchange);
// Returns the encoding of complete weights, as opposed to differences.
Encoding WeightsEncoding(const ExchangeSpec& exchange);
// Returns the number format of FLOAT32, BFLOAT16 or FLOAT16.
WireDtype DtypeOf(Encoding encoding);

// Returns the size in bytes of a payload of `elements`. TOP_K: the maximum
// size.
int64_t PayloadBytes(Encoding encoding, int64_t elements);

// Computes residual[i] += gradient[i], then moves the part that the method
// sends from `residual` to the payload. On return `residual` holds the
// remainder for error feedback. `compression` must be valid.
EncodedFloats CompressWithFeedback(const CompressionSpec& compression,
                                   const float* gradient, float* residual,
                                   int64_t count);

// Compresses to[i] - from[i].
EncodedFloats CompressDifference(const CompressionSpec& compression,
                                 const float* from, const float* to,
                                 int64_t count);

// values[i] += element i, for all `count` elements of a valid TOP_K or
// EIGHT_BIT payload.
void AddCompressed(Encoding encoding, absl::string_view payload, float* values,
                   int64_t count);

// to[i] = from[i], for all i < count that AddCompressed of this payload may
// change.
void CopyCompressed(Encoding encoding, absl::string_view payload,
                    const float* from, float* to, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_ENCODING_H_
