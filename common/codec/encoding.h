// The encodings in which gradients and weights are sent, as selected by the
// fields exchange.wire_dtype and exchange.compression of the job; see Encoding
// in proto/parameter_server.proto.
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

// Floats in the encoding in which they are sent. `data` points to `bytes`
// bytes, which stay valid until `owner` is released.
struct EncodedFloats {
  Encoding encoding = FLOAT32;
  const void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// Returns the encoding in which workers send contributions (gradient sums) in a
// job with the settings `exchange`.
Encoding GradientEncoding(const ExchangeSpec& exchange);
// Returns the encoding in which complete weights are sent in a job with the
// settings `exchange`. Weights that are sent as differences from an earlier
// version may use a different encoding.
Encoding WeightsEncoding(const ExchangeSpec& exchange);
// Returns the number format of `encoding`, which must be FLOAT32, BFLOAT16 or
// FLOAT16.
WireDtype DtypeOf(Encoding encoding);

// Returns the size in bytes of a payload of `elements` elements. For TOP_K this
// is the maximum size, at which all elements are sent.
int64_t PayloadBytes(Encoding encoding, int64_t elements);

// Computes residual[i] += gradient[i], then moves the part that the compression
// method sends from `residual` to the returned payload. On return `residual`
// holds the remainder, which the next call adds to its gradient (error
// feedback). `compression` must be valid.
EncodedFloats CompressWithFeedback(const CompressionSpec& compression,
                                   const float* gradient, float* residual,
                                   int64_t count);

// Returns the differences to[i] - from[i], compressed with the method that
// `compression` selects. `compression` must be valid.
EncodedFloats CompressDifference(const CompressionSpec& compression,
                                 const float* from, const float* to,
                                 int64_t count);

// Adds element i of `payload` to values[i], for all `count` elements. `payload`
// must be valid, with encoding TOP_K or EIGHT_BIT.
void AddCompressed(Encoding encoding, absl::string_view payload, float* values,
                   int64_t count);

// Copies to[i] = from[i] for each i < count for which AddCompressed with this
// payload may change values[i].
void CopyCompressed(Encoding encoding, absl::string_view payload,
                    const float* from, float* to, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_ENCODING_H_
