// A worker's entry into an all-reduce group.
#ifndef TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_
#define TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/trace/trace_recorder.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/device/reduction_stream.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"
#include "worker/process/membership_client.h"
#include "worker/process/worker_network.h"
#include "worker/state/work_state.h"
#include "worker/training/training_setup.h"

namespace tributary {

struct AllReducePartOptions {
  std::string coordinator;  // Address of the coordinator, as host:port.
  WorkerNetwork* network = nullptr;  // Must not be null.
  // True if the job uses certificates or a token. Traffic between workers on
  // different machines then requires `insecure_network`.
  bool secured = false;
  int64_t attempt = 0;
  // How long a member may be silent before the coordinator removes it from the
  // job.
  absl::Duration lease;
  // Name or address of this machine that other workers use to reach it. Empty
  // selects the local address of the connection to the coordinator.
  std::string host;
  // True to permit unencrypted traffic between workers on different machines.
  bool insecure_network = false;
  // Pins the memory in which gradients are computed, so that GPUs copy to it
  // directly. If null, the memory is not pinned.
  PinMemory pin;
  // Records the traced steps. Null if no step is traced. Must outlive the
  // exchange.
  TraceRecorder* trace = nullptr;
  // The NCCL library; null if NCCL is not used.
  NcclLibrary* nccl = nullptr;
  // Creates the stream of an exchange that uses NCCL.
  ReductionStreamMaker make_reduction_stream;
};

// Joins the all-reduce group, after MembershipClient::AwaitOpen has returned
// `open`: creates version 0 of the weights, or reads a later version from
// server 0 (the coordinator), tells the coordinator with a Synced report that
// the weights are complete, waits without a time limit until the coordinator
// has formed the group, and connects to the members.
//
// On failure, returns JobDoneStatus() if the job finished without this worker,
// or else the first error. `setup`, `membership`, `state` and the objects that
// `options` points to must outlive the exchange, which receives the
// coordinator's Save orders until it is destroyed.
absl::StatusOr<std::unique_ptr<AllReduceExchange>> JoinAllReduce(
    const AllReducePartOptions& options, const Open& open, TrainingSetup* setup,
    MembershipClient* membership, WorkState* state);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_
