// The interface for the work that turns a chunk's contributions into its next
// version: sums them, runs the optimizer and writes the new weights.
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

// The pass of one chunk. Owns the chunk's optimizer state, which may be in
// memory that only the pass can access, such as a GPU's. Calls on one object
// must not overlap; different chunks' passes may run at the same time. Calls
// return when the work is done. All implementations compute the same bits,
// except for the payload of a NaN.
//
// Errors are those of the device that computes: Internal if it has failed,
// ResourceExhausted if its memory did not suffice. The outputs of the failed
// call are undefined, and the pass must not be used again.
class ChunkPass {
 public:
  virtual ~ChunkPass() = default;

  // True if Run takes less time than waking another thread, and does not block.
  virtual bool brief() const = 0;

  // Returns the GradientSquares of the sum. The next Run must be for the same
  // sum.
  virtual absl::StatusOr<double> SumOfSquares(const TreeSum& sum) = 0;

  struct Arguments {
    const TreeSum* sum = nullptr;
    UpdateStep step;
    const ChunkWeights* weights = nullptr;
    // `next->from` is the result of the last Run, or the chunk's first version.
    const ChunkWeights::Next* next = nullptr;
    // Write the new weights with non-temporal stores.
    bool streams = false;
    // Leave weights and state unchanged.
    bool skip = false;
    // If not null, receives a copy of the state after the pass, and of the
    // weights if next->in_place.
    const Snapshot::Chunk* copy = nullptr;
  };
  // Writes next->values and calls ChunkWeights::Write for them. Returns the
  // same value as SumOfSquares.
  virtual absl::StatusOr<double> Run(const Arguments& arguments) = 0;

  // Sets the optimizer's state: Optimizer::slots() arrays with the chunk's
  // elements. All zero before Restore. The pass may keep the buffers and write
  // to them.
  virtual absl::Status Restore(std::vector<Buffer> slots) = 0;
  virtual absl::Status CopyState(absl::Span<const Buffer> to) = 0;
};

// The arguments of a ChunkPassMaker.
struct ChunkPassPlan {
  const JobSpec* job = nullptr;  // Counted in rounds. Valid during the call.
  const ArenaLayout* layout = nullptr;
  std::vector<int> chunks;               // The server's chunks, ascending.
  const Optimizer* optimizer = nullptr;  // Must outlive the passes.
};

// The passes, and host memory that they can access quickly.
struct ChunkPasses {
  std::vector<std::unique_ptr<ChunkPass>> passes;  // In the plan's order.
  // Returns a buffer with room for any of the chunks, which may outlive the
  // passes. Null, or returns null, if ordinary memory is as fast.
  std::function<Buffer()> host_buffer;
  // Pins memory from which contributions are read or to which weights are
  // written.
  PinMemory pin;
};

// Creates the passes on one kind of device. ResourceExhausted, with a breakdown
// of the required bytes, if the device's memory is too small.
using ChunkPassMaker =
    std::function<absl::StatusOr<ChunkPasses>(const ChunkPassPlan& plan)>;

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_CHUNK_PASS_H_
