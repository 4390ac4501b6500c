// 8-bit quantization: payloads of encoding EIGHT_BIT (see Encoding in
// proto/parameter_server.proto).
#ifndef TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_
#define TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Number of elements in a block. All elements of a block share one scale.
// Smaller blocks have smaller errors and larger payloads. With 256 elements,
// the scale of four bytes adds 1.6 % to the payload (block-wise quantization:
// Dettmers et al., 2022).
inline constexpr int64_t kEightBitBlock = 256;

// Returns the size in bytes of a payload of `elements` elements: one byte for
// each element, and a float32 scale for each block.
constexpr int64_t EightBitBytes(int64_t elements) {
  return elements + 4 * ((elements + kEightBitBlock - 1) / kEightBitBlock);
}

// Computes residual[i] += gradient[i], then encodes each residual as the
// nearest multiple of its block's scale, which is the block's largest magnitude
// divided by 127. On return `residual` holds the rounding errors, each at most
// half the scale, which the next call adds to its gradient (error feedback). A
// block with infinity or NaN is encoded as NaN, and a block in which all
// magnitudes are below 2^-100 as zeros; in both cases, the encoding leaves the
// block's residuals unchanged. The result has the same bits on every x86-64.
// The arrays must not overlap.
std::string EncodeEightBit(const float* gradient, float* residual,
                           int64_t count);

// Like EncodeEightBit, but encodes the differences to[i] - from[i], without
// storing them in memory. If the caller adds the decoded payload to `from` and
// passes the sum as `from` in the next call, the next difference includes the
// rounding errors of this one.
std::string EncodeEightBitDifference(const float* from, const float* to,
                                     int64_t count);

// Returns InvalidArgument, with the reason, unless `payload` encodes `count`
// elements.
absl::Status CheckEightBit(absl::string_view payload, int64_t count);

// Sets out[i] to element begin + i of `payload`, for i < count. `payload` has
// `elements` elements and must have passed CheckEightBit.
void DecodeEightBit(absl::string_view payload, int64_t elements, int64_t begin,
                    int64_t count, float* out);

// Adds element i of `payload` to values[i], for all `count` elements. `payload`
// must have passed CheckEightBit.
void AddEightBit(absl::string_view payload, float* values, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_
