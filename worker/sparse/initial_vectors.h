// Vectors of features before the first step.
#ifndef TRIBUTARY_WORKER_SPARSE_INITIAL_VECTORS_H_
#define TRIBUTARY_WORKER_SPARSE_INITIAL_VECTORS_H_

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"

namespace tributary {

// Sets Batch::vectors to those of the initial values of all rows, in jobs with
// tables. For measurements of models, for which no server is needed. Returns
// the errors of FeatureRows::RowsOf.
absl::Status SetInitialVectors(const JobSpec& job, Batch* batch);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_INITIAL_VECTORS_H_
