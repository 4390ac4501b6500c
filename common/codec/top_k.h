// Top-k sparsification, the elements of largest magnitude with their places:
// payloads of encoding TOP_K (see Encoding in proto/parameter_server.proto).
#ifndef TRIBUTARY_COMMON_CODEC_TOP_K_H_
#define TRIBUTARY_COMMON_CODEC_TOP_K_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Returns the number of elements to send of `count`: `fraction` of them,
// rounded, at least one unless `count` is 0.
int64_t TopKCount(double fraction, int64_t count);

// Computes residual[i] += gradient[i], then moves the TopKCount elements of
// largest magnitude, fewer than 2^31, from `residual` to a payload. Their
// residuals become 0, so `residual` then holds the errors for error feedback.
// Among equal magnitudes the first elements are sent. Zeros are not sent, NaN
// has the largest magnitude, and denormal numbers count as zero. A pure
// function with the same bits on every x86-64. The arrays must not overlap.
//
// A sample yields an estimate of the threshold (Lin et al., 2018), the pass
// that adds collects the elements that reach it, and the exact selection is
// made among these. If the estimate is too high, slightly fewer elements are
// sent; never more.
std::string EncodeTopK(double fraction, const float* gradient, float* residual,
                       int64_t count);

// Like EncodeTopK for to[i] - from[i], without storing the differences. A
// caller that keeps `from` and adds the payload to it carries the error over to
// the next difference.
std::string EncodeTopKDifference(double fraction, const float* from,
                                 const float* to, int64_t count);

// InvalidArgument, with the reason, unless `payload` encodes at most `count`
// elements whose places ascend and are below `count`. Any values are valid.
absl::Status CheckTopK(absl::string_view payload, int64_t count);

// out[i] = element begin + i, for i < count, of a checked payload.
void DecodeTopK(absl::string_view payload, int64_t begin, int64_t count,
                float* out);

// values[i] += element i, for the elements in the payload.
void AddTopK(absl::string_view payload, float* values);

// sum[i] += element begin + i, for the elements in the payload with i < count.
void AddTopKPart(absl::string_view payload, int64_t begin, int64_t count,
                 float* sum);

// to[i] = from[i], for the places i in the payload.
void CopyTopK(absl::string_view payload, const float* from, float* to);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_TOP_K_H_
