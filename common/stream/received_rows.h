// The rows of a received payload.
#ifndef TRIBUTARY_COMMON_STREAM_RECEIVED_ROWS_H_
#define TRIBUTARY_COMMON_STREAM_RECEIVED_ROWS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/stream/received_payload.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Decodes the rows of a payload, one after the other. Not thread-safe.
class ReceivedRows {
 public:
  // The rows begin at byte `begin` of `payload`, which must outlive this
  // object. `encoding` is one of RowEncoding.
  ReceivedRows(Encoding encoding, const ReceivedPayload* payload,
               int64_t begin = 0)
      : encoding_(encoding), payload_(*payload), next_(begin) {}

  // Decodes the next `rows` rows of `dim` values, which the payload must have,
  // to `values`, [rows, dim]. Returns the errors of DecodeRows.
  absl::Status Read(int64_t rows, int dim, float* values);

 private:
  const Encoding encoding_;
  const ReceivedPayload& payload_;
  int64_t next_;  // The first byte that was not read.
  std::vector<char> scratch_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_RECEIVED_ROWS_H_
