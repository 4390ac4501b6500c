// Creates the exchange of a worker, from what server 0 has told it.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_EXCHANGE_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_EXCHANGE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/optimizer/program_rule.h"
#include "common/trace/trace_recorder.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/device/device.h"
#include "worker/exchange/worker_chunks.h"
#include "worker/process/worker_process.h"
#include "worker/state/work_state.h"
#include "worker/training/training_setup.h"

namespace tributary {

class Exchange;

// Connects to all servers of the job. `setup` and `state` must outlive the
// exchange, and so must `trace`, which may be null. Blocks up to
// WorkerOptions::connect_timeout; returns the errors of
// ParameterServerExchange::Create.
absl::StatusOr<std::unique_ptr<Exchange>> ConnectToServers(
    const WorkerOptions& options, const Admission& admission,
    const TrainingSetup& setup, TraceRecorder* trace, WorkState* state,
    const WorkerChunks& chunks = {});

// Returns the rule of this worker's program; null if it has none.
ProgramRule* RuleOf(const WorkerOptions& options);

// Returns InvalidArgument if the job has optimizer.program and this worker has
// no rule, or the other way around.
absl::Status CheckRule(const WorkerOptions& options, const JobSpec& job);

// Returns the library with which `device` exchanges gradients; null if the job
// does not use NCCL, or may fall back to Gloo. Returns FailedPrecondition if
// the job requires NCCL and this worker cannot use it.
absl::StatusOr<NcclLibrary*> FindNccl(const WorkerOptions& options,
                                      const JobSpec& job, const Device& device);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_EXCHANGE_H_
