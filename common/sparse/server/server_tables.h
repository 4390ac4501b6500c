// The tables of a job on one server.
#ifndef TRIBUTARY_COMMON_SPARSE_SERVER_SERVER_TABLES_H_
#define TRIBUTARY_COMMON_SPARSE_SERVER_SERVER_TABLES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/sparse/sparse_table.h"
#include "proto/job.pb.h"

namespace tributary {

// A server's parts of the tables of a job, in the order of SparseSpec.table.
// Shared because they outlive an attempt of the job, in which an engine changes
// them: with recovery.journal, the next attempt may begin from them.
using ServerTables = std::vector<std::shared_ptr<SparseTable>>;

// Creates the empty tables of server `shard` of `servers`, for rows of
// `version`. `job` is a result of ResolveJob with `sparse`. Returns the errors
// of SparseTable::Create.
absl::StatusOr<ServerTables> MakeServerTables(const JobSpec& job, int shard,
                                              int servers, int64_t version);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_SPARSE_SERVER_SERVER_TABLES_H_
