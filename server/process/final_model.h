// The model of a job that is all computed, gathered from all its servers.
#ifndef TRIBUTARY_SERVER_PROCESS_FINAL_MODEL_H_
#define TRIBUTARY_SERVER_PROCESS_FINAL_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/parameters/parameter_table.h"
#include "server/process/server_options.h"
#include "server/store/parameter_store.h"

namespace tributary {

struct FinalModelSources {
  int64_t version = 0;
  // The checkpoint's folder, if all was computed before this attempt began.
  std::string complete_checkpoint;
  // The caller's own part of it; null in an all-reduce, and where all was
  // computed before this attempt began.
  ParameterStore* store = nullptr;
  // host:port of all servers, by shard; the first one is the caller.
  std::vector<std::string> addresses;
  // With a journal, and in an all-reduce: reads a shard, as
  // LocalServer::ReadCopies does.
  std::function<absl::Status(int shard, int holder, Snapshot*)> copies;
};

// Reads it into `arena`, of layout.arena_elements(): from the servers or, when
// one is gone, from the one that keeps its state, or from the job's last
// checkpoint, which the log then tells.
// Blocks, at most for minutes each server.
absl::Status ReadFinalModel(const FinalModelSources& sources,
                            const ServerOptions& options,
                            const ArenaLayout& layout, const Buffer& arena);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_FINAL_MODEL_H_
