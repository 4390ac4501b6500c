// Interface through which a worker sends gradients and receives weights.
#ifndef TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_
#define TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/base/buffer_pool.h"
#include "common/parameters/arena_layout.h"
#include "common/parameters/memory_view.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/reduction_stream.h"
#include "worker/exchange/chunk_memory.h"
#include "worker/exchange/row_exchange.h"
#include "worker/exchange/step_gradients.h"

namespace tributary {

// Sends a worker's gradients and delivers the weights that result from them.
// Both are divided into chunks, which are slices of the parameters. Version v
// of a chunk is its value after v steps of the optimizer.
//
// To send gradients, the trainer computes them in an arena (a buffer for the
// whole model) that TakeArena has returned, and passes each chunk, from any
// thread, to the StepGradients that Begin has returned. It adds up the
// gradients of the worker's micro-batches, and pushes each finished sum to the
// chunk's GradientSender.
//
// To deliver weights, an implementation uses the WeightsSink `sink` that it was
// created with, which the WorkState implements. For each version of each chunk,
// it calls sink->BeginWrite, writes the values, and calls sink->EndWrite, on
// its own threads. If BeginWrite returns kPark, because a task is still reading
// the destination, the implementation keeps the version, reads no more versions
// from the same peer, and calls BeginWrite again when the callback that it has
// passed to sink->SetUnparked runs. Implementations that write a version only
// after Push was called for the step before treat kPark as an error, because no
// task reads the destination then. Versions of one chunk arrive in order;
// chunks arrive in any order. In asynchronous mode the implementation also
// reports with sink->SetOutcome whether a server applied or refused each sum.
// The trainer learns from the WorkState which weights have arrived.
//
// If a peer is lost, or sends an invalid message, the exchange ends and calls
// sink->Fail. This happens at the latest when all sums of a step have been
// pushed and the step needs the peer. The error names the peer. Its code is
// Unavailable if the peer was lost, or the code of the error with which a
// server ended the connection. Afterwards all methods may still be called and
// have no effect. The exchange does not call the sink after its destructor has
// returned.
//
// In synchronous mode every version has the same bits with every
// implementation: sums are added in the order of a fixed binary tree, the
// reduction tree. See tests/worker/exchange/conformance.
//
// Thread-safe. Finish and the destructor block. If device() is not null,
// PushInitial blocks, too, and so does TakeArena when it allocates memory.
class Exchange {
 public:
  // `job` must be resolved. `layout` must outlive the exchange.
  Exchange(const JobSpec& job, const ArenaLayout* layout);
  virtual ~Exchange() = default;

  // Begins to send the gradients of `micro_batches` of step `step`. The result
  // must not outlive the exchange.
  std::unique_ptr<StepGradients> Begin(
      int64_t step, const std::vector<int64_t>& micro_batches);

  // Returns the ReductionStream that runs this exchange's operations on a GPU,
  // or null if the exchange works in host memory. If it is not null, the arenas
  // of TakeArena and of the WeightsSink are in the memory of the stream's
  // device, which must be the device of the trainer. The stream's methods may
  // be called at any time.
  virtual ReductionStream* device() { return nullptr; }

  // Returns a gradient arena in memory from which sums are sent without
  // copying. Throws std::bad_alloc if memory does not suffice.
  virtual Buffer TakeArena() = 0;

  // Returns a gradient arena in the memory of the server's GPU, whose sums can
  // be pushed like those of an arena of TakeArena. Returns null if there is
  // none, or all are in use.
  virtual Buffer TakeDeviceArena() { return nullptr; }
  // Returns the arena that holds this version of the weights in the memory of
  // the worker's own GPU (kDevice), which can read it at full speed, or of a
  // different GPU (kPeerDevice). The trainer must then read it instead of
  // WorkState::Weights, once WorkState::AwaitWeights has returned true for the
  // chunk. Returns an empty view if weights pass through host memory; this does
  // not change between the arrival of the first weights and Finish.
  virtual MemoryView DeviceWeights(int64_t /*version*/) const { return {}; }

  // Shows the servers the worker's assignment. The membership client calls this
  // before the WorkState receives the assignment.
  virtual void ShowAssignment(const Deal& /*assignment*/) {}

  // Sends version 0 of every chunk to which the worker contributes, which are
  // all chunks unless it computes some stages of a pipeline. `arena` has the
  // layout of the whole model.
  virtual void PushInitial(Buffer arena) = 0;
  // Returns the memory that a worker uses chunk by chunk (see ChunkMemory), or
  // null if the worker does not fetch weights.
  virtual ChunkMemory* chunk_memory() { return nullptr; }
  // Returns what exchanges rows of tables. Null in jobs without tables.
  virtual RowExchange* rows() { return nullptr; }
  // Returns the sender of a chunk's gradient sums. StepGradients pushes them.
  virtual GradientSender* SenderOf(int chunk) = 0;
  // Ends the exchange once all pushed sums have been sent. Blocks until the
  // connections to servers are closed or, for an all-reduce, the last step is
  // complete.
  virtual void Finish() = 0;

  // Sets the fields of `statistics` that count bytes and chunks' round trips.
  virtual void FillStatistics(ProcessStatistics* statistics) const = 0;

  const ArenaLayout& layout() const { return *plan_.layout; }

 protected:
  // The learning rates that the program has stated for the steps whose sums are
  // pushed.
  const StatedRates& rates() const { return rates_; }

 private:
  // Called by Begin.
  virtual void OnBegin(int64_t /*step*/) {}

  StatedRates rates_;
  StepGradients::Plan plan_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_EXCHANGE_H_
