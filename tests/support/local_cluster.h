// A whole cluster in one process: servers and workers run as threads and
// communicate over gRPC on loopback.
#ifndef TRIBUTARY_TESTS_SUPPORT_LOCAL_CLUSTER_H_
#define TRIBUTARY_TESTS_SUPPORT_LOCAL_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/shutdown.h"
#include "common/os/logger.h"
#include "common/transport/security.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_pass.h"
#include "nlohmann/json.hpp"
#include "proto/job.pb.h"
#include "proto/rendezvous.grpc.pb.h"
#include "server/process/server_options.h"
#include "worker/process/worker_process.h"

namespace tributary {

// Credentials of the cluster's servers and workers.
struct ClusterSecurity {
  Security servers;
  Security workers;
};

// Options for the servers, in addition to the job.
struct ClusterServers {
  ChunkPassMaker make_passes = &MakeBlockPasses;
  std::string resume_from;  // See ServerOptions; empty to begin at step 0.
  // Changes the options of each server; may be null.
  std::function<void(ServerOptions*)> change;
};

// The key of the cluster's MemberSecrets, for tests that play a worker.
inline constexpr char kClusterSecretKey[] = "key";

// Runs one job on a cluster of threads. Not thread-safe.
class LocalCluster {
 public:
  // Starts `servers` servers for `job` (valid, unresolved). The job writes to
  // `directory` and begins when `expected_workers` workers have joined.
  LocalCluster(const JobSpec& job, int servers, int expected_workers,
               const std::string& directory,
               const ClusterSecurity& security = {},
               const ClusterServers& how = {});
  // Stops all servers and workers that still run.
  ~LocalCluster();

  // Starts a worker and returns its number.
  int StartWorker(int threads = 1);
  // Like StartWorker, but computes on devices from `make_device`, and uses
  // `nccl`, with streams from `make_reduction_stream`, unless it is null.
  int StartWorkerOn(const DeviceMaker& make_device, int threads = 1,
                    NcclLibrary* nccl = nullptr,
                    ReductionStreamMaker make_reduction_stream = nullptr);
  // Like StartWorker, but the worker's clock runs `slowness` times as fast. The
  // worker therefore measures and reports a compute time that is longer by this
  // factor; no thread is delayed.
  int StartSlowWorker(double slowness);
  // Like StartWorker, but the worker requests this rank.
  int StartWorkerOfRank(int rank);
  // Like StartWorkerOfRank, but the worker uses `network`, which must outlive
  // the worker.
  int StartWorkerOver(WorkerNetwork* network, int rank);
  // Like StartWorker, but with `security` instead of ClusterSecurity::workers.
  int StartWorkerWith(const Security& security);
  // Disconnects the worker at once, as if its process had failed, and waits for
  // its thread.
  void KillWorker(int worker);

  // Waits until the job has completed `step` steps or has ended.
  void AwaitStep(int64_t step);
  // Waits until all servers and workers have ended. Returns the coordinator's
  // status.
  absl::Status Await();
  // Waits until the worker has ended, and returns its status.
  absl::Status AwaitWorker(int worker);
  // Returns the worker's status. Call after Await.
  absl::Status worker_status(int worker) const {
    return workers_[worker]->status;
  }
  // Returns the contents of summary.json. Call after Await.
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
