// Rows that were requested, by their keys.
#ifndef TRIBUTARY_WORKER_SPARSE_KEYED_ROWS_H_
#define TRIBUTARY_WORKER_SPARSE_KEYED_ROWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/sparse/row_gradients.h"
#include "worker/exchange/row_exchange.h"
#include "worker/sparse/key_numbers.h"

namespace tributary {

// Requests rows, and finds them by their keys. Immutable and thread-safe.
class KeyedRows {
 public:
  // Requests the rows of `keys`, for each table, of a version. `exchange` must
  // outlive this object.
  KeyedRows(const RowDims& dims, std::vector<KeyNumbers> keys, int64_t version,
            RowExchange* exchange);

  // Returns the keys of a table, ascending.
  const std::vector<uint64_t>& keys(int table) const {
    return keys_[table].keys();
  }
  // Returns the place of a key in keys(), which is that of its row; -1 if its
  // row was not requested.
  int32_t Find(int table, uint64_t key) const { return keys_[table].Find(key); }
  // Blocks until the rows have arrived, and returns those of a table, [keys,
  // dim]. Returns the errors of RequestedRows::Await.
  absl::StatusOr<const float*> Await(
      int table, const std::function<bool()>& given_up) const;

 private:
  std::vector<KeyNumbers> keys_;  // By table.
  std::vector<int64_t> begin_;    // Of each table's rows.
  std::unique_ptr<RequestedRows> requested_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_KEYED_ROWS_H_
