#include "worker/sparse/keyed_rows.h"

#include <utility>

#include "common/base/status_macros.h"

namespace tributary {

KeyedRows::KeyedRows(const RowDims& dims, std::vector<KeyNumbers> keys,
                     int64_t version, RowExchange* exchange)
    : keys_(std::move(keys)) {
  TableKeys sorted;
  int64_t begin = 0;
  for (size_t table = 0; table < keys_.size(); ++table) {
    keys_[table].Sort();
    sorted.push_back(keys_[table].keys());
    begin_.push_back(begin);
    begin += static_cast<int64_t>(sorted.back().size()) * dims[table];
  }
  requested_ = exchange->Request(version, sorted);
}

absl::StatusOr<const float*> KeyedRows::Await(
    int table, const std::function<bool()>& given_up) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const float* const rows,
                             requested_->Await(given_up));
  return rows + begin_[table];
}

}  // namespace tributary
