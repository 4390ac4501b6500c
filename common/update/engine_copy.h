// Copies of what a server holds, for checkpoints.
#ifndef TRIBUTARY_COMMON_UPDATE_ENGINE_COPY_H_
#define TRIBUTARY_COMMON_UPDATE_ENGINE_COPY_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "common/parameters/snapshot.h"
#include "common/sparse/sparse_table.h"
#include "common/update/tables/table_engine.h"
#include "common/update/update_engine.h"

namespace tributary {

// The chunks of a server in one version, and what has changed in its tables up
// to this version.
struct EngineCopy {
  Snapshot chunks;
  std::vector<SparseTable::Changes> tables;  // Empty in jobs without tables.
};

// Copies the chunks and the changes as soon as they have the version, and then
// calls `done` once, on any thread. Returns false, and does not call `done`, if
// the version has passed; see UpdateEngine::TakeSnapshot and
// TableEngine::TakeChanges.
bool CopyEngine(UpdateEngine* engine, int64_t version,
                std::function<void(EngineCopy)> done);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_ENGINE_COPY_H_
