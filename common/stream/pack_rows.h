// The messages that carry rows of tables; see "Tables" in proto/PROTOCOL.md.
#ifndef TRIBUTARY_COMMON_STREAM_PACK_ROWS_H_
#define TRIBUTARY_COMMON_STREAM_PACK_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer_pool.h"
#include "common/sparse/row_gradients.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_payload.h"
#include "common/stream/spare_buffers.h"
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

// The gradients of those rows of a table that belong to one server.
struct OutgoingRows {
  std::shared_ptr<const RowSum> sum;
  // The places of the rows among those of `sum`, ascending. If absent, all rows
  // belong to the server.
  std::optional<std::vector<int32_t>> places;

  int64_t rows() const {
    return places.has_value() ? static_cast<int64_t>(places->size())
                              : sum->rows();
  }
};

// Returns all rows of `sums`.
std::vector<OutgoingRows> AllRows(const TableSums& sums);

// Calls send(message, payload) for each message of a contribution of `rows`, of
// all tables. `header` has the fields that all parts have in common.
void PackContribution(
    const RowContribution& header, const std::vector<OutgoingRows>& rows,
    const RowDims& dims, Encoding encoding,
    const std::function<void(const RowContribution&, OutgoingPayload)>& send);

// Puts together the parts of contributions from one worker.
class ContributionParts {
 public:
  ContributionParts(RowDims dims, Encoding encoding)
      : dims_(std::move(dims)),
        encoding_(encoding),
        tables_(dims_.size()),
        // Those of a step, while the step before is applied.
        buffers_(2 * static_cast<int>(dims_.size())) {}

  // Adds a part. Returns the gradients of all parts if it is the last one, and
  // no tables otherwise. Returns InvalidArgument if it is not the next part of
  // the contribution or its payload is invalid. Does not check the keys.
  absl::StatusOr<TableGradients> Add(const RowContribution& part,
                                     const ReceivedPayload& payload);

 private:
  struct Table {
    std::vector<uint64_t> keys;
    Buffer values;
    int64_t elements = 0;  // Of the rows that have arrived.
    int64_t capacity = 0;  // Elements of `values`.
    // Those of the contribution before, which had about as many rows.
    int64_t expected = 0;
  };

  // Makes room for more elements.
  void Reserve(int64_t elements, Table* table);

  absl::Status Append(const RowContribution& part,
                      const ReceivedPayload& payload);

  const RowDims dims_;
  const Encoding encoding_;
  // The first part of the contribution, and how many parts have arrived.
  RowContribution first_;
  int parts_ = 0;
  std::vector<Table> tables_;
  SpareBuffers buffers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_PACK_ROWS_H_
