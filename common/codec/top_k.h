// Top-k sparsification: payloads of encoding TOP_K (see Encoding in
// proto/parameter_server.proto), which contain only the elements of largest
// magnitude and their indices.
#ifndef TRIBUTARY_COMMON_CODEC_TOP_K_H_
#define TRIBUTARY_COMMON_CODEC_TOP_K_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Returns how many of `count` elements to send: `fraction` * `count`, rounded
// to the nearest integer, but at least one unless `count` is 0.
int64_t TopKCount(double fraction, int64_t count);

// Computes residual[i] += gradient[i], then moves the TopKCount(fraction,
// count) elements of largest magnitude from `residual` to the returned payload.
// `count` must be below 2^31. The residuals of the sent elements become 0; the
// other residuals remain, and the next call adds them to its gradient (error
// feedback). Among equal magnitudes, the elements with the lowest indices are
// sent. Zeros are not sent, NaN has the largest magnitude, and denormal numbers
// count as zero. The result has the same bits on every x86-64. The arrays must
// not overlap.
//
// Uses a sample of the elements to estimate the smallest magnitude that must be
// sent (Lin et al., 2018). The pass that adds the gradient collects the
// elements that reach this estimate, and the exact selection is made among the
// collected elements. If the estimate is too high, slightly fewer than
// TopKCount elements are sent; never more.
std::string EncodeTopK(double fraction, const float* gradient, float* residual,
                       int64_t count);

// Like EncodeTopK, but encodes the differences to[i] - from[i], without storing
// them in memory. If the caller adds the decoded payload to `from` and passes
// the sum as `from` in the next call, the next difference includes the elements
// that were not sent.
std::string EncodeTopKDifference(double fraction, const float* from,
                                 const float* to, int64_t count);

// Returns InvalidArgument, with the reason, unless `payload` encodes at most
// `count` elements whose indices ascend and are below `count`. The elements may
// have any values.
absl::Status CheckTopK(absl::string_view payload, int64_t count);

// Decodes a part of the encoded array: sets out[i] to its element begin + i,
// for i < count. Elements that are not in the payload are 0. `payload` must
// have passed CheckTopK.
void DecodeTopK(absl::string_view payload, int64_t begin, int64_t count,
                float* out);

// Adds element i to values[i], for each element i in the payload. `payload`
// must have passed CheckTopK.
void AddTopK(absl::string_view payload, float* values);

// Adds element begin + i of the encoded array to sum[i], for each i < count for
// which the payload contains that element. `payload` must have passed
// CheckTopK.
void AddTopKPart(absl::string_view payload, int64_t begin, int64_t count,
                 float* sum);

// Copies to[i] = from[i] for each i for which the payload contains element i.
// `payload` must have passed CheckTopK.
void CopyTopK(absl::string_view payload, const float* from, float* to);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_TOP_K_H_
