// Connects the servers and workers of a job that are threads of one process.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_NETWORK_H_
#define TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_NETWORK_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/thread_pool.h"
#include "common/os/logger.h"
#include "deploy/launch/in_process/server_port.h"
#include "deploy/launch/job/coordinator_client.h"
#include "proto/rendezvous.pb.h"
#include "server/process/server_network.h"
#include "worker/exchange/mesh/local_mesh_group.h"
#include "worker/exchange/stages/local_stage_port.h"
#include "worker/process/worker_network.h"

namespace tributary {

// Sockets are not used: messages pass from one thread to another (see
// LocalCall), gradients and weights through memory that both map. Servers have
// the addresses "server-0", "server-1", ... Thread-safe.
class InProcessNetwork {
 public:
  // The address of the coordinator, server 0.
  static constexpr char kCoordinator[] = "server-0";

  // `threads` threads deliver the messages; at least two.
  explicit InProcessNetwork(int threads);
  ~InProcessNetwork();
  InProcessNetwork(const InProcessNetwork&) = delete;
  InProcessNetwork& operator=(const InProcessNetwork&) = delete;

  // Return the network of one server, for ServerOptions::network, and of one
  // worker, for WorkerOptions::network. This object and `log` must outlive it.
  // `on_ready` is ServerOptions::on_ready.
  std::unique_ptr<ServerNetwork> MakeServerNetwork(
      int shard, Logger* log, std::function<void(bool)> on_ready = nullptr);
  std::unique_ptr<WorkerNetwork> MakeWorkerNetwork();
  // Returns a client of the coordinator, for JobRunnerOptions::connect. This
  // object must outlive it.
  std::unique_ptr<CoordinatorClient> ConnectRunner();

  // ---- For the objects that the methods above return.
  Executor* executor() { return &pool_; }
  LocalMeshes* meshes() { return &meshes_; }
  // Registers a server that accepts calls, or a worker of a pipeline, which
  // gets a unique address, until Withdraw.
  void Publish(const std::string& address, std::shared_ptr<ServerPort> port)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::string Publish(std::shared_ptr<LocalStagePort> port)
      ABSL_LOCKS_EXCLUDED(mu_);
  void Withdraw(const std::string& address) ABSL_LOCKS_EXCLUDED(mu_);
  // Return the port that listens there, or else one that refuses all calls with
  // Unavailable. An empty address is that of the coordinator.
  std::shared_ptr<ServerPort> FindServer(const std::string& address)
      ABSL_LOCKS_EXCLUDED(mu_);
  std::shared_ptr<LocalStagePort> FindStage(const std::string& address)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Blocks until the server accepts calls. Calls `stop` repeatedly. Returns
  // null at `deadline`, a time of MonotonicNow, or when `stop` returns true.
  std::shared_ptr<ServerPort> AwaitServer(const std::string& address,
                                          absl::Time deadline,
                                          const std::function<bool()>& stop)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  LocalMeshes meshes_;
  // Ports that refuse all calls.
  std::shared_ptr<ServerPort> no_server_;
  std::shared_ptr<LocalStagePort> no_stage_;
  absl::Mutex mu_;
  std::map<std::string, std::shared_ptr<ServerPort>> servers_
      ABSL_GUARDED_BY(mu_);
  int64_t next_stage_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::shared_ptr<LocalStagePort>> stages_
      ABSL_GUARDED_BY(mu_);
  ThreadPool pool_;  // Ends first.
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_NETWORK_H_
