// Interface for sending gradients and receiving weights. Received weights are
// written to the WorkState.
#ifndef TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/subtree_reducer.h"

namespace tributary {

// Sends a worker's gradients and receives new weights. Errors are reported
// through WorkState::Fail.
//
// Thread-safe. Only Finish blocks.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Returns a gradient arena in memory that Push can send without copying.
  virtual Buffer TakeArena() = 0;

  // Sends version 0 of every chunk. `arena` holds the whole model.
  virtual void PushInitial(Buffer arena) = 0;
  // Sends one sum of step `step`. Holds the sum's arena until it has been sent.
  // The chunks of a node must be pushed in the order of backward, chunk 0 last,
  // because notices of other chunks may be held back to be sent together.
  virtual void Push(int64_t step, NodeChunk sum) = 0;
  // Closes all connections after sending everything pushed. Blocks until they
  // are closed.
  virtual void Finish() = 0;

  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
  // See ProcessStatistics.
  virtual DurationCounts chunk_latency() const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_
