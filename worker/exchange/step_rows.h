// Summation and sending of the gradients of rows of a worker's micro-batches.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STEP_ROWS_H_
#define TRIBUTARY_WORKER_EXCHANGE_STEP_ROWS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/sparse/row_gradients.h"
#include "proto/parameter_server.pb.h"
#include "worker/exchange/row_exchange.h"

namespace tributary {

// Takes the gradients of rows of one step's micro-batches, adds them up along
// the reduction tree, and sends the sums, as StepGradients does with chunks.
// Thread-safe.
class StepRows {
 public:
  // `encoding` is RowEncoding of the job. `micro_batches` lists the
  // micro-batches of step `step`, in ascending order. `exchange` must outlive
  // this object.
  StepRows(RowDims dims, Encoding encoding, int tree_leaves, int64_t step,
           const std::vector<int64_t>& micro_batches, RowExchange* exchange);

  // Takes the gradients of a micro-batch, which this object rounds.
  void Ready(int micro_batch, int64_t sample_count, TableGradients rows)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Sum {
    int64_t sample_count = 0;
    TableSums rows;
  };

  const RowDims dims_;
  const Encoding encoding_;
  const int tree_leaves_;
  const int64_t step_;
  RowExchange* const exchange_;
  std::set<int> tops_;  // The nodes whose sums are sent.

  absl::Mutex mu_;
  // Sums whose sibling node has no sum yet, by node.
  std::map<int, Sum> waiting_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STEP_ROWS_H_
