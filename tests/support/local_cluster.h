// A whole cluster in the test's process: servers and workers as threads, over
// gRPC on loopback.
#ifndef TRIBUTARY_TESTS_SUPPORT_LOCAL_CLUSTER_H_
#define TRIBUTARY_TESTS_SUPPORT_LOCAL_CLUSTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/shutdown.h"
#include "common/os/log.h"
#include "common/transport/security.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/rendezvous.grpc.pb.h"
#include "server/store/block_pass.h"
#include "server/store/chunk_pass.h"
#include "worker/process/worker_process.h"

namespace tributary {

// How the cluster's processes show who they are.
struct ClusterSecurity {
  Security servers;
  Security workers;
};

// What its servers are told beside the job.
struct ClusterServers {
  ChunkPassMaker make_passes = &MakeBlockPasses;
  std::string resume_from;  // See ServerOptions; empty: they begin.
};

// For one thread of the test.
class LocalCluster {
 public:
  // Starts `servers` servers for the job (valid, unresolved), which writes to
  // `directory` and begins when `expected_workers` are there.
  LocalCluster(const JobSpec& job, int servers, int expected_workers,
               const std::string& directory,
               const ClusterSecurity& security = {},
               const ClusterServers& how = {});
  // Stops what still runs.
  ~LocalCluster();

  // Starts a worker; returns its number.
  int StartWorker(int threads = 1);
  // The same, on devices that this makes, and with this NCCL, or none.
  int StartWorkerOn(const DeviceMaker& make_device, int threads = 1,
                    NcclLibrary* nccl = nullptr);
  // The same, with a clock that runs `slowness` times as fast: the worker
  // finds, and reports, that computing takes it so much longer. Nobody waits
  // for it.
  int StartSlowWorker(double slowness);
  // The same, as the worker of that rank.
  int StartWorkerOfRank(int rank);
  // The same, showing something else than the cluster's workers do.
  int StartWorkerWith(const Security& security);
  // Cuts the worker off wherever it is, as its death would, and waits for its
  // thread.
  void KillWorker(int worker);

  // Waits until the job has completed `step` steps, or has ended.
  void AwaitStep(int64_t step);
  // Waits for the end of all servers and workers. The coordinator's status.
  absl::Status Await();
  // Waits for the worker's end.
  absl::Status AwaitWorker(int worker);
  // After Await: a worker's status.
  absl::Status worker_status(int worker) const {
    return workers_[worker]->status;
  }
  // After Await: summary.json.
  nlohmann::json Summary() const;
  const std::string& coordinator() const { return coordinator_; }

 private:
  struct Process {
    Shutdown shutdown;
    absl::Status status;
    std::thread thread;
  };

  void StartServer(const JobSpec& job, int shard, int servers,
                   int expected_workers);
  int Start(const WorkerOptions& options);

  const std::string directory_;
  const ClusterSecurity security_;
  const ClusterServers how_;
  std::string coordinator_;
  std::unique_ptr<Logger> log_;
  std::unique_ptr<Rendezvous::Stub> stub_;
  std::vector<std::unique_ptr<Process>> servers_;
  std::vector<std::unique_ptr<Process>> workers_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_LOCAL_CLUSTER_H_
