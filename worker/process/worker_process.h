// One worker from start to end: joins, opens its data, trains its leaves, says
// goodbye.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_PROCESS_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_PROCESS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/base/shutdown.h"
#include "common/os/log.h"
#include "common/transport/security.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/training/training_setup.h"

namespace tributary {

struct WorkerOptions {
  // host:port of the coordinator (shard 0).
  std::string coordinator;
  // Wanted rank; -1: any.
  int rank = -1;
  // Threads that compute leaves, one leaf each at a time. They never change the
  // result.
  int threads = 1;
  // Called for each of them, when the job is known.
  DeviceMaker make_device = &MakeCpuDevice;
  // Called in an all-reduce on GPUs. Null: there is no NCCL.
  std::function<absl::StatusOr<NcclLibrary*>()> load_nccl;
  // How this worker shows who it is.
  Security security;
  // In an all-reduce: the name or number of this machine that other workers
  // reach it by, empty for the address from which the coordinator is reached;
  // and whether gradients may go there unencrypted though there is security.
  std::string host;
  bool insecure_network = false;
  // Must outlive the call of RunWorker. Required.
  Logger* log = nullptr;
  // How long to try to reach the coordinator, and each server, at the start.
  absl::Duration connect_timeout = absl::Seconds(60);
  // How long to look for them when they are away later.
  absl::Duration reconnect_timeout = absl::Minutes(10);
  // Longest time between two heartbeats; at the end of a step one comes after
  // half of it. A short lease makes it shorter.
  absl::Duration heartbeat_interval = absl::Seconds(1);
  // Measures the work, and by it the worker's speed.
  std::function<absl::Time()> clock = &MonotonicNow;
};

// Blocks until the job is done (OK), has failed (the reason, one line, ready to
// show) or `shutdown` was requested (Cancelled). When a server is lost, or this
// worker's lease has ended (it stood still, say), it joins again. `shutdown`
// must outlive the call.
absl::Status RunWorker(const WorkerOptions& options, Shutdown* shutdown);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_PROCESS_H_
