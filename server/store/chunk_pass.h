// The pass that makes a chunk's next version from contributions: their sum, the
// optimizer, the new weights.
#ifndef TRIBUTARY_SERVER_STORE_CHUNK_PASS_H_
#define TRIBUTARY_SERVER_STORE_CHUNK_PASS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/parameter_table.h"
#include "common/parameters/snapshot.h"
#include "proto/job.pb.h"
#include "server/store/aggregation/chunk_aggregator.h"
#include "server/store/chunk_weights.h"

namespace tributary {

// One chunk's, with the optimizer's state of that chunk, which may be in memory
// that only the pass can read. One thread at a time; different chunks' at the
// same time. Calls return when the work is done, with the same bits whatever
// computes (but for the payload of a NaN).
//
// Errors are those of the device that computes: Internal if it has failed,
// ResourceExhausted if its memory did not suffice. What the call was to write
// is then undefined, and the pass must not be used any more.
class ChunkPass {
 public:
  virtual ~ChunkPass() = default;

  // Run takes less time than waking another thread would, and does not wait.
  virtual bool brief() const = 0;

  // GradientSquares of the sum. The next Run is of the same sum.
  virtual absl::StatusOr<double> SumOfSquares(const TreeSum& sum) = 0;

  struct Arguments {
    const TreeSum* sum = nullptr;
    UpdateStep step;
    const ChunkWeights* weights = nullptr;
    // Its `from` is what the last Run has made, or the chunk's first version.
    const ChunkWeights::Next* next = nullptr;
    // New weights are written past the caches.
    bool streams = false;
    // Leaves weights and state as they are.
    bool skip = false;
    // If not null, gets the state after the pass, and the weights if
    // next->in_place.
    const Snapshot::Chunk* copy = nullptr;
  };
  // Writes next->values, and what ChunkWeights::Write makes of them. Returns
  // what SumOfSquares does.
  virtual absl::StatusOr<double> Run(const Arguments& arguments) = 0;

  // The optimizer's state, Optimizer::slots() arrays of the chunk's elements:
  // all zero until Restore. The pass may keep the buffers and write to them.
  virtual absl::Status Restore(std::vector<Buffer> slots) = 0;
  virtual absl::Status CopyState(absl::Span<const Buffer> to) = 0;
};

// What a server's passes are to do.
struct ChunkPassPlan {
  const JobSpec* job = nullptr;  // Of rounds; during the call.
  const ArenaLayout* layout = nullptr;
  std::vector<int> chunks;               // The server's, ascending.
  const Optimizer* optimizer = nullptr;  // Outlives the passes.
};

// The passes, and what makes it easy for them to read and write host memory.
struct ChunkPasses {
  std::vector<std::unique_ptr<ChunkPass>> passes;  // In the plan's order.
  // A buffer with room for any of the chunks, which may outlive the passes;
  // null, or gives null, where any memory is as good.
  std::function<Buffer()> host_buffer;
  // For memory that contributions are read from or weights are written to.
  PinMemory pin;
};

// Makes the passes on one kind of device. ResourceExhausted, saying what takes
// how much, where its memory is too small.
using ChunkPassMaker =
    std::function<absl::StatusOr<ChunkPasses>(const ChunkPassPlan& plan)>;

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_CHUNK_PASS_H_
