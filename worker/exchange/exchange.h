// How a worker's gradients get out and new weights come in. Weights arrive in
// the WorkState by themselves.
#ifndef TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/subtree_reducer.h"

namespace tributary {

// Thread-safe. Nothing blocks but Finish. What goes wrong meanwhile is a
// WorkState::Fail.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // An arena for gradients, in memory from which Push sends without copying.
  virtual Buffer TakeArena() = 0;

  // Sends version 0 of every chunk. `arena` holds the whole model.
  virtual void PushInitial(Buffer arena) = 0;
  // Sends one sum of step `step`; its arena is held until the bytes have left.
  // Of a node's chunks the first must come last, as in backward: some words
  // wait for others to share a message with.
  virtual void Push(int64_t step, NodeChunk sum) = 0;
  // Ends all connections after what was pushed; waits until they are closed.
  virtual void Finish() = 0;

  virtual int64_t bytes_sent() const = 0;
  virtual int64_t bytes_received() const = 0;
  // See ProcessStatistics.
  virtual DurationCounts chunk_latency() const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_
