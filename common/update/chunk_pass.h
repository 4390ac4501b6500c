// The interface for a pass, which turns the contributions to a chunk (gradient
// sums that workers send) into the chunk's next version: it sums the
// contributions, runs the optimizer and writes the new weights.
#ifndef TRIBUTARY_COMMON_UPDATE_CHUNK_PASS_H_
#define TRIBUTARY_COMMON_UPDATE_CHUNK_PASS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/optimizer/optimizer.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/snapshot.h"
#include "common/parameters/trust_ratios.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/chunk_weights.h"
#include "common/update/device_share.h"
#include "proto/job.pb.h"

namespace tributary {

// Computes the versions of one chunk: a pass sums the contributions to the
// chunk, runs the optimizer and writes the new weights. Owns the chunk's
// optimizer state, which may be in memory that only the pass can access, such
// as GPU memory. Calls on one object must not overlap; different chunks' passes
// may run at the same time. Each method returns when its work is done. All
// implementations compute the same bits, except for the payload of a NaN.
//
// The methods return Internal if the device that computes has failed, and
// ResourceExhausted if the device does not have enough memory. After an error,
// the outputs of the call are undefined, and the pass must not be used again.
class ChunkPass {
 public:
  virtual ~ChunkPass() = default;

  // Returns true if Run does not block and takes less time than waking another
  // thread.
  virtual bool brief() const = 0;

  // Returns the sum of squares of the gradient (see GradientSquares). The next
  // call of Run must get the same `sum`.
  virtual absl::StatusOr<double> SumOfSquares(const TreeSum& sum) = 0;

  // The arguments of SumTensorSquares.
  struct TensorArguments {
    const TreeSum* sum = nullptr;  // That of SumOfSquares.
    UpdateStep step;               // Its learning rate is not used.
    Buffer weights;                // The newest version, as in Next::from.
  };
  // Returns, for each parameter with weight decay that has elements in the
  // chunk, in order, the sums of squares from which its trust ratio is computed
  // (see TrustRatios). Changes neither weights nor state. Called after
  // SumOfSquares, only if the optimizer has trust ratios.
  virtual absl::StatusOr<std::vector<TensorSquares>> SumTensorSquares(
      const TensorArguments& /*arguments*/) {
    return absl::UnimplementedError("this pass computes no trust ratios");
  }

  // The arguments of Run.
  struct Arguments {
    const TreeSum* sum = nullptr;
    UpdateStep step;
    // If the optimizer has trust ratios: the ratio of each parameter with
    // weight decay that has elements in the chunk, in order. Otherwise empty.
    absl::Span<const float> trust_ratios;
    // The version to compute. `next->from` holds the weights that the last Run
    // has written, or the chunk's first version. If next->place is kDevice,
    // only the device needs the new weights: the pass neither writes
    // next->values nor calls next->Write. Allowed only if ChunkPasses::share is
    // not null.
    const ChunkWeights::Next* next = nullptr;
    // If true, the pass writes the new weights with non-temporal stores.
    bool streams = false;
    // If false, Run does not compute the sum of squares that it returns.
    bool squares = true;
    // If true, the new weights are a copy of the old weights, and the optimizer
    // state is unchanged.
    bool skip = false;
    // If not null, receives a copy of the optimizer state after the pass, and
    // of the new weights if next->place is kShared.
    const Snapshot::Chunk* copy = nullptr;
  };
  // Updates the chunk: writes the new weights to next->values, calls
  // next->Write for them, and updates the optimizer's state. Returns
  // the same value as SumOfSquares.
  virtual absl::StatusOr<double> Run(const Arguments& arguments) = 0;

  // Copies a version of the weights to DeviceShare::weights(). Called for the
  // first version, before Run, if ChunkPasses::share is not null.
  virtual absl::Status Place(int64_t /*version*/, const float* /*values*/) {
    return absl::OkStatus();
  }
  // Copies a version of the weights, which must be one of the newest two, from
  // DeviceShare::weights() to `to`. Called only if ChunkPasses::share is not
  // null, and never during the Run that computes `version` + 2, because that
  // Run overwrites this version.
  virtual absl::Status Fetch(int64_t /*version*/, float* /*to*/) {
    return absl::OkStatus();
  }
  // Sets the optimizer's state: one array with the chunk's elements for each
  // slot (see Optimizer::slot_names). If Restore is not called, all elements
  // are zero at first. The pass may keep the buffers and write to them.
  virtual absl::Status Restore(std::vector<Buffer> slots) = 0;
  // Copies the optimizer's state to the buffers `to`, one for each slot.
  virtual absl::Status CopyState(absl::Span<const Buffer> to) = 0;
};

// Runs the passes of several chunks together, with the same results as if they
// ran one by one, as this class does. On a GPU, one kernel launch can update
// several chunks. Thread-safe, but calls with the same pass must not overlap.
class ChunkPassGroup {
 public:
  virtual ~ChunkPassGroup() = default;

  // Returns the largest number of passes that one call of SumOfSquares or Run
  // may contain.
  virtual int most() const { return 1; }
  // Returns the number of calls of SumOfSquares and Run that the implementation
  // can overlap, for example on streams of a GPU. At least 1.
  virtual int streams() const { return 1; }

  struct SumItem {
    ChunkPass* pass = nullptr;
    const TreeSum* sum = nullptr;
  };
  struct TensorItem {
    ChunkPass* pass = nullptr;
    ChunkPass::TensorArguments arguments;
  };
  struct RunItem {
    ChunkPass* pass = nullptr;
    const ChunkPass::Arguments* arguments = nullptr;
  };
  // These functions have the same effect as calling the method of ChunkPass
  // with the same name for each item, and return the results in the order of
  // the items. There must be at least one item and at most most(). If any pass
  // fails, they return its error, and none of the passes may be used again.
  virtual absl::StatusOr<std::vector<double>> SumOfSquares(
      absl::Span<const SumItem> items) {
    std::vector<double> squares;
    for (const SumItem& item : items) {
      TRIBUTARY_ASSIGN_OR_RETURN(squares.emplace_back(),
                                 item.pass->SumOfSquares(*item.sum));
    }
    return squares;
  }
  virtual absl::StatusOr<std::vector<std::vector<TensorSquares>>>
  SumTensorSquares(absl::Span<const TensorItem> items) {
    std::vector<std::vector<TensorSquares>> squares;
    for (const TensorItem& item : items) {
      TRIBUTARY_ASSIGN_OR_RETURN(squares.emplace_back(),
                                 item.pass->SumTensorSquares(item.arguments));
    }
    return squares;
  }
  virtual absl::StatusOr<std::vector<double>> Run(
      absl::Span<const RunItem> items) {
    std::vector<double> squares;
    for (const RunItem& item : items) {
      TRIBUTARY_ASSIGN_OR_RETURN(squares.emplace_back(),
                                 item.pass->Run(*item.arguments));
    }
    return squares;
  }
};

// The arguments of a ChunkPassMaker, which describe the passes to create.
struct ChunkPassPlan {
  // A result of JobOfRounds: each step of this job is a round (with local SGD,
  // several steps of the user's job). Valid only during the call of the
  // ChunkPassMaker.
  const JobSpec* job = nullptr;
  const ArenaLayout* layout = nullptr;
  // Numbers of the server's chunks, ascending.
  std::vector<int> chunks;
  const Optimizer* optimizer = nullptr;  // Must outlive the passes.
};

// The passes of a server's chunks, and the memory that they use.
struct ChunkPasses {
  // The pass of each chunk, in the order of ChunkPassPlan::chunks.
  std::vector<std::unique_ptr<ChunkPass>> passes;
  std::unique_ptr<ChunkPassGroup> group = std::make_unique<ChunkPassGroup>();
  // Returns a buffer with room for any of the chunks. The buffer may outlive
  // the passes. The function is null or returns null if ordinary memory is as
  // fast.
  std::function<Buffer()> host_buffer;
  // The device memory that workers on the same host may map. Null if there is
  // no such memory.
  std::shared_ptr<DeviceShare> share;
  // Pins memory from which contributions are read or to which weights are
  // written. Null if memory need not be pinned.
  PinMemory pin;
};

// A function that creates the ChunkPasses for one kind of device. Returns
// ResourceExhausted, with a breakdown of the required bytes, if the device's
// memory is too small.
using ChunkPassMaker =
    std::function<absl::StatusOr<ChunkPasses>(const ChunkPassPlan& plan)>;

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CHUNK_PASS_H_
