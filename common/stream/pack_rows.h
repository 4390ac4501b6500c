// The messages that carry rows of tables; see "Tables" in proto/PROTOCOL.md.
#ifndef TRIBUTARY_COMMON_STREAM_PACK_ROWS_H_
#define TRIBUTARY_COMMON_STREAM_PACK_ROWS_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/sparse/row_gradients.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_payload.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Returns the payload of a RowsRequest for `keys`, and sets the numbers of keys
// in `*request`.
OutgoingPayload PackRequest(const TableKeys& keys, RowsRequest* request);
// Reads the payload of a RowsRequest. Returns InvalidArgument if it does not
// have the numbers of keys of `request`, or these are not the job's tables.
// Does not check the keys.
absl::StatusOr<TableKeys> ReadRequest(const RowsRequest& request,
                                      const ReceivedPayload& payload,
                                      int tables);

// Calls send(message, payload) for each message of the answer to a request for
// `keys` keys of each table, whose `values` are as in TableEngine::Read.
void PackRows(int64_t request, const std::vector<int64_t>& keys,
              const RowDims& dims, Encoding encoding, const Buffer& values,
              const std::function<void(const Rows&, OutgoingPayload)>& send);

// Calls send(message, payload) for each message of a contribution of `rows`.
// `header` has the fields that all parts have in common.
void PackContribution(
    const RowContribution& header, const TableGradients& rows,
    const RowDims& dims, Encoding encoding,
    const std::function<void(const RowContribution&, OutgoingPayload)>& send);

// Puts together the parts of contributions from one worker.
class ContributionParts {
 public:
  ContributionParts(RowDims dims, Encoding encoding)
      : dims_(std::move(dims)), encoding_(encoding) {}

  // Adds a part. Returns the gradients of all parts if it is the last one, and
  // no tables otherwise. Returns InvalidArgument if it is not the next part of
  // the contribution or its payload is invalid. Does not check the keys.
  absl::StatusOr<TableGradients> Add(const RowContribution& part,
                                     const ReceivedPayload& payload);

 private:
  // The rows of one table in one part.
  struct Block {
    Buffer values;
    int64_t elements = 0;
  };
  struct Table {
    std::vector<uint64_t> keys;
    std::vector<Block> blocks;
  };

  // Returns the values of all blocks.
  static Buffer Join(const std::vector<Block>& blocks);

  absl::Status Append(const RowContribution& part,
                      const ReceivedPayload& payload);

  const RowDims dims_;
  const Encoding encoding_;
  // The first part of the contribution, and how many parts have arrived.
  RowContribution first_;
  int parts_ = 0;
  std::vector<Table> tables_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_PACK_ROWS_H_
