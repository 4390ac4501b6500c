// What a job's exchange.wire_dtype and exchange.compression mean for payloads:
// see Encoding in proto/parameter_server.proto.
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

// Floats as they go on the wire: what they are, where, and who keeps them
// there.
struct EncodedFloats {
  Encoding encoding = FLOAT32;
  const void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// Of contributions.
Encoding GradientEncoding(const ExchangeSpec& exchange);
// Of weights that are no differences.
Encoding WeightsEncoding(const ExchangeSpec& exchange);
// The number format that FLOAT32, BFLOAT16 or FLOAT16 stands for.
WireDtype DtypeOf(Encoding encoding);

// Bytes of a payload of `elements`. TOP_K: the most that it may have.
int64_t PayloadBytes(Encoding encoding, int64_t elements);

// residual[i] += gradient[i], then moves what the method sends of `residual`
// into a payload, and leaves in it what it does not: the error to be fed back.
// `compression` is valid.
EncodedFloats CompressWithFeedback(const CompressionSpec& compression,
                                   const float* gradient, float* residual,
                                   int64_t count);

// What the method sends of to[i] - from[i].
EncodedFloats CompressDifference(const CompressionSpec& compression,
                                 const float* from, const float* to,
                                 int64_t count);

// values[i] += element i, for all `count` elements of a TOP_K or EIGHT_BIT
// payload that is known to be good.
void AddCompressed(Encoding encoding, absl::string_view payload, float* values,
                   int64_t count);

// to[i] = from[i], for all i < count that AddCompressed of this payload may
// change.
void CopyCompressed(Encoding encoding, absl::string_view payload,
                    const float* from, float* to, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_ENCODING_H_
