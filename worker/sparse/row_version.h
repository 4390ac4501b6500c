// The versions of rows that workers read.
#ifndef TRIBUTARY_WORKER_SPARSE_ROW_VERSION_H_
#define TRIBUTARY_WORKER_SPARSE_ROW_VERSION_H_

#include <cstdint>

#include "common/sparse/sparse_table.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the version of rows that a worker reads to compute `step`:
// kNewestRows in mode `asynchronous`, and otherwise step - fixed_lag, but at
// least 0. `job` is a result of ResolveJob with `sparse`.
int64_t RowVersionOf(const JobSpec& job, int64_t step);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_SPARSE_ROW_VERSION_H_
