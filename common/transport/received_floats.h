// The floats of a payload that came from the wire, in whatever encoding.
#ifndef TRIBUTARY_COMMON_TRANSPORT_RECEIVED_FLOATS_H_
#define TRIBUTARY_COMMON_TRANSPORT_RECEIVED_FLOATS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/chunk_codec.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Immutable, so safe from any thread. Numbers are decoded where they are read;
// only what is compressed is copied before, into one piece.
class ReceivedFloats {
 public:
  // InvalidArgument, saying why, unless `payload` encodes `elements` floats.
  static absl::StatusOr<ReceivedFloats> Create(Encoding encoding,
                                               ReceivedPayload payload,
                                               int64_t elements);

  // to[i] = element begin + i, for i < count.
  void Read(int64_t begin, int64_t count, float* to) const;
  // Most elements are 0, so that AddPart takes less time than Read.
  bool sparse() const { return encoding_ == TOP_K; }
  // sum[i] += element begin + i, for i < count; nothing is added where that is
  // 0. Only of what is sparse.
  void AddPart(int64_t begin, int64_t count, float* sum) const;
  // Reads all elements, past the caches: see StreamingCopy.
  void Stream(float* to) const;
  // values[i] += element i, for all of them. Only of what is compressed: TOP_K
  // or EIGHT_BIT.
  void AddTo(float* values) const;
  // to[i] = from[i], for all that AddTo may change. As above.
  void CopyChanged(const float* from, float* to) const;

 private:
  ReceivedFloats() = default;

  Encoding encoding_ = FLOAT32;
  int64_t elements_ = 0;
  ReceivedPayload payload_;
  // Shared, so that copies of this object cost nothing.
  std::shared_ptr<const std::string> compressed_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_RECEIVED_FLOATS_H_
