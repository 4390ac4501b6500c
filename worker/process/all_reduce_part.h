// A worker's entry into an all-reduce group.
#ifndef TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_
#define TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/trace/trace_recorder.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/exchange/exchange.h"
#include "worker/process/membership_client.h"
#include "worker/process/worker_process.h"
#include "worker/state/work_state.h"
#include "worker/training/stages/stage_part.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Joins the all-reduce group, after MembershipClient::AwaitOpen has returned
// `open`: creates version 0 of the weights, or reads a later version from
// server 0 (the coordinator), tells the coordinator with a Synced report that
// the weights are complete, waits without a time limit until the coordinator
// has formed the group, and connects to the members.
//
// Uses NCCL if the group does; `nccl` is null if this worker cannot use it, and
// `trace` if no step is traced. `stages` is null unless the worker computes
// stages of a pipeline; then it has to do with their chunks only. On failure,
// returns JobDoneStatus() if the job finished without this worker, Aborted if
// it gets other stages before the group is formed, or else the first error. All
// pointers, and `options.network`, must outlive the exchange, which receives
// the coordinator's Save orders until it is destroyed.
absl::StatusOr<std::unique_ptr<Exchange>> JoinAllReduce(
    const WorkerOptions& options, const Admission& admission, const Open& open,
    NcclLibrary* nccl, TrainingSetup* setup, TraceRecorder* trace,
    const StagePart* stages, MembershipClient* membership, WorkState* state);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_ALL_REDUCE_PART_H_
