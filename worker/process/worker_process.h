// A worker process: joins a job, opens its data, computes gradients until the
// job is done, and leaves.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_PROCESS_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_PROCESS_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/shutdown.h"
#include "common/metrics/metrics_registry.h"
#include "common/optimizer/program_rule.h"
#include "common/os/logger.h"
#include "common/parameters/untrained_tensor.h"
#include "common/transport/security.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/device/reduction_stream.h"
#include "worker/process/worker_network.h"
#include "worker/training/training_setup.h"

namespace tributary {

struct WorkerOptions {
  // Address of the coordinator (shard 0) as host:port.
  std::string coordinator;
  // The rank to request from the coordinator, or -1 for any.
  int rank = -1;
  // Number of compute threads; each computes one micro-batch at a time. Never
  // changes the result.
  int threads = 1;
  // Creates the device of a compute thread. Called once for each compute
  // thread, when the job is known; not called for model.synthetic, which uses
  // the CPU.
  DeviceMaker make_device = &MakeCpuDevice;
  // The functions that open the job's data and create its models.
  TrainingSources sources;
  // Returns the update rule of the program, or null if it has none. Called when
  // the models have been created. Null if no worker has one. The rule must
  // outlive the call of RunWorker.
  std::function<ProgramRule*()> rule;
  // Returns true if the program has untrained tensors, which `untrained` then
  // returns when the job has ended, after this number of steps. The first one
  // is called when the models have been created. Null if no worker has any.
  std::function<bool()> has_untrained;
  std::function<std::vector<UntrainedTensor>(int64_t steps)> untrained;
  // Loads NCCL. Called for an all-reduce on GPUs. Null if the worker must not
  // use NCCL.
  std::function<absl::StatusOr<NcclLibrary*>()> load_nccl;
  // Creates the stream of an all-reduce on GPUs. Required if load_nccl is set.
  ReductionStreamMaker make_reduction_stream;
  // Credentials of this worker.
  Security security;
  // Opens the streams to the other processes of the job. Null selects gRPC with
  // `security`. Must outlive the call of RunWorker.
  WorkerNetwork* network = nullptr;
  // Used by an all-reduce only. `host` is the name or address of this machine
  // that other workers use to reach it; empty selects the local address of the
  // connection to the coordinator. `insecure_network` is true to permit
  // unencrypted gradients even if `security` is set.
  std::string host;
  bool insecure_network = false;
  // The worker's log. Required; must outlive the call of RunWorker.
  Logger* log = nullptr;
  // Time limit for connecting to the coordinator until it first admits this
  // worker and, in each attempt, for connecting to all servers. An attempt
  // begins at the start of the job and after each loss of a server.
  absl::Duration connect_timeout = absl::Seconds(60);
  // Time limit for connecting to the coordinator again after a lost connection.
  absl::Duration reconnect_timeout = absl::Minutes(10);
  // If true, a worker whose job was stopped joins again instead of ending,
  // because server 0 will be restarted to resume the job.
  bool await_resume = false;
  // Called with true when the coordinator has admitted the worker, and with
  // false when the worker no longer takes part. Must not block. May be null.
  std::function<void(bool)> on_joined;
  // Called with Admission.rank and Admission.workers whenever the coordinator
  // has admitted the worker, before the job's data are opened. Must not block.
  // May be null.
  std::function<void(int rank, int workers)> on_admitted;
  // Maximum interval between heartbeats; a short lease shortens it. At the end
  // of a step, a heartbeat is sent if half of the interval has passed since the
  // previous one.
  absl::Duration heartbeat_interval = absl::Seconds(1);
  // Where the worker registers its metrics. Must outlive the call of RunWorker.
  // May be null.
  MetricsRegistry* metrics = nullptr;
  // Clock that measures durations. The worker's speed is computed from them.
  std::function<absl::Time()> clock = &MonotonicNow;
};

// Blocks until the job is done (OK), the worker or the job has failed (a
// one-line error for the user), or the job is stopped or `shutdown` is
// requested (Cancelled). `shutdown` must outlive the call.
//
// Joins the job again when
//
// - a server is lost;
// - this worker's lease expires, for example because the process was suspended;
// - a server refuses the token of a worker that was admitted before, because
//   the token is being replaced.
absl::Status RunWorker(const WorkerOptions& options, Shutdown* shutdown);

// Returns true if `status`, a result of RunWorker, is the error of a device
// that has failed for a reason other than too little memory. This process
// cannot use the device again, but a new process may take the worker's place:
// the job waits for it.
bool DeviceHasFailed(const absl::Status& status);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_PROCESS_H_
