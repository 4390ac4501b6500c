// The interface through which an exchange delivers new weights.
#ifndef TRIBUTARY_WORKER_STATE_WEIGHTS_SINK_H_
#define TRIBUTARY_WORKER_STATE_WEIGHTS_SINK_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/os/shared_memory.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// The part of a WorkState that an Exchange uses: the arenas (buffers for the
// weights of the whole model), and the first error. Thread-safe; no method
// blocks.
class WeightsSink {
 public:
  virtual ~WeightsSink() = default;

  // Maps the chunks of server number `shard`, one of `servers` servers, from
  // the server's memory into this worker's arenas. `memory` holds two arenas,
  // each rounded up to whole pages. Must be called before the first BeginWrite
  // for any of these chunks. Returns FailedPrecondition, with the reason, if
  // the consistency mode, the chunk size or the number of chunks does not
  // permit mapping, `memory` has the wrong size, or the system cannot map it.
  virtual absl::Status MapChunks(const MappedMemory& memory, int shard,
                                 int servers) = 0;
  // Makes `even` and `odd`, whose memory may belong to a device, the arenas of
  // the weights of even and odd versions. They must already hold the weights
  // that have been written so far. Must be called before the first task.
  // Returns FailedPrecondition if the consistency mode does not permit it.
  virtual absl::Status SetArenas(Buffer /*even*/, Buffer /*odd*/) {
    return absl::FailedPreconditionError("this mode keeps its own arenas");
  }
  enum class Arrival {
    // Write the values to `*to`, then call EndWrite. If the chunk is mapped,
    // call EndWrite without writing.
    kWrite,
    // Keep the version, because a task is reading the destination, and call
    // BeginWrite again when the SetUnparked callback runs.
    kPark,
    // Discard the version, because it is not newer than the one that the sink
    // already has.
    kDrop,
  };
  // Begins to deliver a version of a chunk. Returns what the exchange must do
  // with it. For kWrite, sets *to to the destination.
  virtual Arrival BeginWrite(int chunk, int64_t version, float** to) = 0;
  // Ends the delivery after the values have been written. Must be called once
  // after each BeginWrite that returned kWrite.
  virtual void EndWrite(int chunk, int64_t version) = 0;
  // If the worker fetches weights, BeginWrite and EndWrite announce versions,
  // and these two deliver values. BeginFetched sets *to to the destination, and
  // returns false if the values are not needed; otherwise EndFetched must
  // follow.
  virtual bool BeginFetched(int /*chunk*/, int64_t /*version*/,
                            float** /*to*/) {
    return false;
  }
  virtual void EndFetched(int /*chunk*/, int64_t /*version*/) {}
  // In jobs with tables: records that server number `shard` has all
  // contributions of rows to the steps before `version`.
  virtual void SetTablesComplete(int /*shard*/, int64_t /*version*/) {}
  // Returns the arena that holds this version of the weights. Used by exchanges
  // that compute the next version from this version.
  virtual const float* Weights(int64_t version) const = 0;
  // Returns the version of the chunk that the task under way computes from.
  // Call after WorkState::AwaitWeights for that chunk. Meaningful only in modes
  // in which chunk versions may differ from the task's version.
  virtual int64_t BaseVersion(int /*chunk*/) const { return 0; }
  // Sets the callback that runs whenever BeginWrite may be retried for chunks
  // for which it has returned kPark. No locks are held during the callback. An
  // exchange that retries parked chunks must call this before its first
  // BeginWrite. Null removes the callback.
  virtual void SetUnparked(std::function<void()> unparked) = 0;
  // Reports whether a server applied or refused a gradient of this worker.
  // Ignored except in asynchronous mode.
  virtual void SetOutcome(const Outcome& outcome) = 0;

  // Records `status` unless an error has been recorded before. The first error
  // ends every wait for weights.
  virtual void Fail(const absl::Status& status) = 0;
  // Returns the first error, or OK.
  virtual absl::Status status() const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_STATE_WEIGHTS_SINK_H_
