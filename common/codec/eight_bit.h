// 8-bit quantization: payloads of encoding EIGHT_BIT (see Encoding in
// proto/parameter_server.proto).
#ifndef TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_
#define TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Number of elements that share a scale. Smaller blocks have smaller errors and
// larger payloads; the scales of 256 elements add 1.6 % (block-wise
// quantization: Dettmers et al., 2022).
inline constexpr int64_t kEightBitBlock = 256;

// Returns the size of a payload in bytes.
constexpr int64_t EightBitBytes(int64_t elements) {
  return elements + 4 * ((elements + kEightBitBlock - 1) / kEightBitBlock);
}

// Computes residual[i] += gradient[i], then encodes each element as the nearest
// multiple of its block's scale: the block's largest magnitude divided by 127.
// On return `residual` holds the errors for error feedback, at most half a
// scale each. A block with infinity or NaN is encoded as NaN. The result has
// the same bits on every x86-64. The arrays must not overlap.
std::string EncodeEightBit(const float* gradient, float* residual,
                           int64_t count);

// Like EncodeEightBit for to[i] - from[i], without storing the differences. A
// caller that keeps `from` and adds the payload to it carries the error over to
// the next difference.
std::string EncodeEightBitDifference(const float* from, const float* to,
                                     int64_t count);

// InvalidArgument, with the reason, unless `payload` encodes `count` elements.
absl::Status CheckEightBit(absl::string_view payload, int64_t count);

// out[i] = element begin + i, for i < count, of a checked payload of `elements`
// elements.
void DecodeEightBit(absl::string_view payload, int64_t elements, int64_t begin,
                    int64_t count, float* out);

// values[i] += element i, for all `count` elements of a checked payload.
void AddEightBit(absl::string_view payload, float* values, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_
