// How a worker comes to take part in an all-reduce.
#ifndef TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_
#define TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/transport/security.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"
#include "worker/process/membership_client.h"
#include "worker/state/work_state.h"
#include "worker/training/training_setup.h"

namespace tributary {

struct AllReducePartOptions {
  std::string coordinator;  // host:port.
  Security security;
  int64_t attempt = 0;
  // The name or number of this machine that other workers reach it by; empty:
  // the address from which the coordinator is reached.
  std::string host;
  // What workers send each other may go to other machines unencrypted.
  bool insecure_network = false;
  // For gradient arenas.
  PinMemory pin;
  // Null where it cannot be used.
  NcclLibrary* nccl = nullptr;
};

// Makes the first version of the weights, or reads it from the server; says
// Synced; waits, as long as it takes, until the coordinator has formed the
// group; connects to its members. OutOfRange if the job is done without this
// worker; else what came between. All must outlive the exchange, which the
// Save orders reach until it is destroyed.
absl::StatusOr<std::unique_ptr<AllReduceExchange>> JoinAllReduce(
    const AllReducePartOptions& options, const Open& open, TrainingSetup* setup,
    MembershipClient* membership, WorkState* state);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_
