// Rows whose keys a program announces before it looks them up.
#ifndef TRIBUTARY_WORKER_SPARSE_ANNOUNCED_ROWS_H_
#define TRIBUTARY_WORKER_SPARSE_ANNOUNCED_ROWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "worker/exchange/row_exchange.h"
#include "worker/sparse/feature_rows.h"
#include "worker/sparse/keyed_rows.h"

namespace tributary {

// Keys of one feature. The number counts from 0, in the order of the job.
struct AnnouncedKeys {
  int feature = 0;
  absl::Span<const uint64_t> keys;
};

// Requests the rows of keys that the program announces, and keeps them until it
// looks them up. Outlives the exchange, which it has only between Attach and
// Detach. Thread-safe; no method blocks.
class AnnouncedRows {
 public:
  // `features` and `exchange` must exist until Detach.
  void Attach(const JobSpec& job, const FeatureRows* features,
              RowExchange* exchange) ABSL_LOCKS_EXCLUDED(mu_);
  void Detach() ABSL_LOCKS_EXCLUDED(mu_);
  // States that the worker computes `step`. Forgets earlier steps.
  void Begin(int64_t step) ABSL_LOCKS_EXCLUDED(mu_);

  // Requests the rows of a micro-batch. An announcement does not change any
  // result, and is ignored for steps of the past, for steps far ahead, without
  // an exchange, and for micro-batches and features that do not exist. A second
  // announcement for a micro-batch replaces the first.
  void Announce(int64_t step, int micro_batch,
                const std::vector<AnnouncedKeys>& keys)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the rows that were announced for a micro-batch, or null.
  std::shared_ptr<const KeyedRows> Find(int64_t step, int micro_batch) const
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  const FeatureRows* features_ ABSL_GUARDED_BY(mu_) = nullptr;
  JobSpec job_ ABSL_GUARDED_BY(mu_);
  int64_t micro_batches_ ABSL_GUARDED_BY(mu_) = 0;
  RowExchange* exchange_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t step_ ABSL_GUARDED_BY(mu_) = 0;
  // By (step, micro-batch).
  std::map<std::pair<int64_t, int>, std::shared_ptr<const KeyedRows>> rows_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_ANNOUNCED_ROWS_H_
