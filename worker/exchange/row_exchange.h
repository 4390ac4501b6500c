// The interface through which a worker reads rows of tables and sends their
// gradients.
#ifndef TRIBUTARY_WORKER_EXCHANGE_ROW_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_ROW_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/sparse/row_gradients.h"

namespace tributary {

// Rows that were requested. Thread-safe. Destroy it to stop waiting for rows
// that are not needed any more.
class RequestedRows {
 public:
  virtual ~RequestedRows() = default;
  // Blocks until all rows have arrived, and returns their values: those of the
  // first table, [keys, dim], then those of the next. They are valid as long as
  // this object. Calls `given_up` from time to time, and returns Aborted once
  // it returns true, or if the servers do not have the version any more; the
  // step is then complete. Returns the error of the exchange if it has failed.
  virtual absl::StatusOr<const float*> Await(
      const std::function<bool()>& given_up) = 0;
};

// The part of an Exchange that concerns tables. Thread-safe; no method blocks.
class RowExchange {
 public:
  virtual ~RowExchange() = default;
  // Requests rows of a version of all tables, from all servers, also from those
  // that have none of the keys. The rows arrive when the version exists.
  virtual std::unique_ptr<RequestedRows> Request(int64_t version,
                                                 const TableKeys& keys) = 0;
  // Sends the gradients of rows, summed over the samples under one node of the
  // reduction tree, to all servers.
  virtual void Push(int64_t step, int node, int64_t sample_count,
                    const TableSums& sum) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_ROW_EXCHANGE_H_
