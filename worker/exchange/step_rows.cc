#include "worker/exchange/step_rows.h"

#include <utility>

#include "common/codec/row_codec.h"
#include "common/parameters/reduction_tree.h"

namespace tributary {

StepRows::StepRows(RowDims dims, Encoding encoding, int tree_leaves,
                   int64_t step, const std::vector<int64_t>& micro_batches,
                   RowExchange* exchange)
    : dims_(std::move(dims)),
      encoding_(encoding),
      tree_leaves_(tree_leaves),
      step_(step),
      exchange_(exchange) {
  for (const int node : MaximalSubtreesOf(micro_batches, tree_leaves)) {
    tops_.insert(node);
  }
}

void StepRows::Ready(int micro_batch, int64_t sample_count,
                     TableGradients rows) {
  for (size_t table = 0; table < rows.size(); ++table) {
    RoundRows(encoding_, rows[table]->values.get(), rows[table]->rows(),
              dims_[table]);
  }
  Sum sum = {sample_count, ToSums(rows, dims_)};
  int node = tree_leaves_ + micro_batch;
  while (tops_.count(node) == 0) {
    Sum sibling;
    {
      absl::MutexLock lock(&mu_);
      const auto found = waiting_.find(node ^ 1);
      if (found == waiting_.end()) {
        waiting_.emplace(node, std::move(sum));
        return;
      }
      sibling = std::move(found->second);
      waiting_.erase(found);
    }
    // Addition is commutative, so the order of the two does not matter.
    sum.sample_count += sibling.sample_count;
    sum.rows = AddSums(sum.rows, sibling.rows, encoding_);
    node /= 2;
  }
  exchange_->Push(step_, node, sum.sample_count, sum.rows);
}

}  // namespace tributary
