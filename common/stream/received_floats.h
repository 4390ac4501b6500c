// The floats of a received payload, in any encoding.
#ifndef TRIBUTARY_COMMON_STREAM_RECEIVED_FLOATS_H_
#define TRIBUTARY_COMMON_STREAM_RECEIVED_FLOATS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/stream/received_payload.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Holds a received payload and decodes its elements when they are read. A
// compressed payload is copied into contiguous memory at construction; other
// payloads are not copied. Immutable, so thread-safe.
class ReceivedFloats {
 public:
  // Returns InvalidArgument, with the reason, unless `payload` encodes
  // `elements` floats.
  static absl::StatusOr<ReceivedFloats> Create(Encoding encoding,
                                               ReceivedPayload payload,
                                               int64_t elements);

  // Sets to[i] to element begin + i, for i < count.
  void Read(int64_t begin, int64_t count, float* to) const;
  // Returns true if the encoding is TOP_K: most elements are then usually 0, so
  // that AddPart is faster than Read.
  bool sparse() const { return encoding_ == TOP_K; }
  // Adds element begin + i to sum[i], for i < count, and skips elements that
  // are 0. Requires sparse().
  void AddPart(int64_t begin, int64_t count, float* sum) const;
  // Writes all elements to `to`, bypassing the caches; see StreamingCopy.
  void Stream(float* to) const;
  // Adds element i to values[i], for all elements. Requires a compressed
  // encoding: TOP_K or EIGHT_BIT.
  void AddTo(float* values) const;
  // Copies to[i] = from[i] for each element i that AddTo may change. Requires a
  // compressed encoding.
  void CopyChanged(const float* from, float* to) const;

 private:
  ReceivedFloats() = default;

  Encoding encoding_ = FLOAT32;
  int64_t elements_ = 0;
  ReceivedPayload payload_;
  // The bytes of a compressed payload. Shared, so that copies of this object
  // are cheap.
  std::shared_ptr<const std::string> compressed_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_RECEIVED_FLOATS_H_
