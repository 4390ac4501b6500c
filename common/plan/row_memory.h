// Computes the memory for rows of tables.
#ifndef TRIBUTARY_COMMON_PLAN_ROW_MEMORY_H_
#define TRIBUTARY_COMMON_PLAN_ROW_MEMORY_H_

#include <cstdint>
#include <string>

#include "proto/job.pb.h"

namespace tributary {

// Returns the memory that a server needs for one row of a table: its values,
// their state, the header and the index.
int64_t RowBytes(const SparseTableSpec& table);

// Returns the memory that the rows need at most on one of `servers` servers,
// by `capacity` and `memory_bytes` of the tables; twice that with
// recovery.journal. A table without both counts as empty; see DescribeTables.
int64_t ServerTableBytes(const JobSpec& job, int servers);
// Returns the memory for the rows of steps: on one of `servers` servers,
// gradients that have been received, their sum and earlier versions of rows,
// also of the replica that the server keeps; in a worker, rows that were
// requested and gradients. Each key counts as often as it occurs; a feature
// with several keys in a sample counts as one with one key. `job` must be
// resolved. `micro_batches` are those of the worker in a step, and `arenas` is
// its GradientArenas.
int64_t ServerStepRowBytes(const JobSpec& job, int servers);
int64_t WorkerRowBytes(const JobSpec& job, int64_t micro_batches,
                       int64_t arenas, int threads);

// Returns a line for each table: bytes of a row, and how many rows the job
// permits.
std::string DescribeTables(const SparseSpec& sparse);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PLAN_ROW_MEMORY_H_
