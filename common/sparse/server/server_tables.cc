#include "common/sparse/server/server_tables.h"

#include "common/base/status_macros.h"

namespace tributary {

absl::StatusOr<ServerTables> MakeServerTables(const JobSpec& job, int shard,
                                              int servers, int64_t version) {
  ServerTables tables;
  for (const SparseTableSpec& spec : job.sparse().table()) {
    SparseTable::Options table;
    table.spec = spec;
    table.seed = job.seed();
    table.shard = shard;
    table.servers = servers;
    table.version = version;
    table.versions = 2 * job.sparse().fixed_lag() + 2;
    table.replicated = job.recovery().journal();
    TRIBUTARY_ASSIGN_OR_RETURN(tables.emplace_back(),
                               SparseTable::Create(table));
  }
  return tables;
}

}  // namespace tributary
