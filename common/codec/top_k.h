// The elements of the largest magnitude, with their places: payloads of
// encoding TOP_K (see Encoding in proto/parameter_server.proto).
#ifndef TRIBUTARY_COMMON_CODEC_TOP_K_H_
#define TRIBUTARY_COMMON_CODEC_TOP_K_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tributary {

// The number of elements to send of `count`: `fraction` of them, rounded, at
// least one if there is any.
int64_t TopKCount(double fraction, int64_t count);

// residual[i] += gradient[i], then moves the TopKCount largest magnitudes out
// of `residual`, fewer than 2^31, into a payload; 0 is left in their place, so
// `residual` then holds the error to be fed back. Of equal magnitudes the first
// go. Zeros are not sent, NaN counts as the largest of all. A pure function:
// the same bits on every x86-64. Denormal numbers count as zero. The arrays
// must not overlap.
//
// A threshold is estimated from a sample (Lin et al., 2018), the pass that adds
// collects what reaches it, and the exact choice is made among these. If the
// sample was unlucky they are too few, and somewhat less is sent than was asked
// for; never more.
std::string EncodeTopK(double fraction, const float* gradient, float* residual,
                       int64_t count);

// The same of to[i] - from[i], which are stored nowhere: who keeps `from`, and
// adds the payload to it, has the error in the next difference.
std::string EncodeTopKDifference(double fraction, const float* from,
                                 const float* to, int64_t count);

// InvalidArgument, saying why, unless `payload` is one of at most `count`
// elements whose places ascend and lie below `count`. Values may be anything.
absl::Status CheckTopK(absl::string_view payload, int64_t count);

// Of a payload that was checked: out[i] = element begin + i, for i < count.
void DecodeTopK(absl::string_view payload, int64_t begin, int64_t count,
                float* out);

// values[i] += element i, for those in the payload.
void AddTopK(absl::string_view payload, float* values);

// The same of a part: sum[i] += element begin + i, for those in the payload
// with i < count.
void AddTopKPart(absl::string_view payload, int64_t begin, int64_t count,
                 float* sum);

// to[i] = from[i], for the places i in the payload.
void CopyTopK(absl::string_view payload, const float* from, float* to);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_CODEC_TOP_K_H_
