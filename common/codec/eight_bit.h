// Eight bits for each element: payloads of encoding EIGHT_BIT (see Encoding in
// proto/parameter_server.proto).
#ifndef TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_
#define TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Elements that share a scale. Fewer would make errors smaller and payloads
// larger: 256 cost 1.6 % (block-wise quantization: Dettmers et al., 2022).
inline constexpr int64_t kEightBitBlock = 256;

// Bytes of a payload.
constexpr int64_t EightBitBytes(int64_t elements) {
  return elements + 4 * ((elements + kEightBitBlock - 1) / kEightBitBlock);
}

// residual[i] += gradient[i], then rounds each to the nearest multiple of its
// block's scale, the block's largest magnitude / 127. On return `residual`
// holds the error to be fed back, at most half a scale each. A block with
// infinite numbers or NaN is sent as NaN. The same bits on every x86-64. The
// arrays must not overlap.
std::string EncodeEightBit(const float* gradient, float* residual,
                           int64_t count);

// The same of to[i] - from[i], which are stored nowhere: who keeps `from`, and
// adds the payload to it, has the error in the next difference.
std::string EncodeEightBitDifference(const float* from, const float* to,
                                     int64_t count);

// InvalidArgument, saying why, unless `payload` is one of `count` elements.
absl::Status CheckEightBit(absl::string_view payload, int64_t count);

// Of a payload of `elements` that was checked: out[i] = element begin + i, for
// i < count.
void DecodeEightBit(absl::string_view payload, int64_t elements, int64_t begin,
                    int64_t count, float* out);

// values[i] += element i, for all `count` of a payload that was checked.
void AddEightBit(absl::string_view payload, float* values, int64_t count);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_EIGHT_BIT_H_
