// Interface through which a worker reaches the other processes of its job.
#ifndef TRIBUTARY_WORKER_PROCESS_WORKER_NETWORK_H_
#define TRIBUTARY_WORKER_PROCESS_WORKER_NETWORK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/parameters/snapshot.h"
#include "common/stream/replica_stream.h"
#include "common/transport/security.h"
#include "proto/journal.pb.h"
#include "worker/exchange/mesh/gloo_mesh.h"
#include "worker/exchange/mesh/peer_mesh.h"
#include "worker/exchange/parameter_server/server_connection.h"
#include "worker/exchange/stages/network/stage_connector.h"
#include "worker/exchange/stages/network/stage_host.h"
#include "worker/exchange/stages/stage_port.h"
#include "worker/process/membership_client.h"

namespace tributary {

// Opens streams to the other processes of the job. The caller starts the
// streams. Thread-safe.
class WorkerNetwork {
 public:
  virtual ~WorkerNetwork() = default;

  // Connects to the coordinator and returns a stream. Returns the errors of
  // ConnectToCoordinator in common/transport/channel.h.
  virtual absl::StatusOr<std::unique_ptr<MembershipStream>>
  ConnectToCoordinator(const std::string& address, absl::Duration timeout,
                       const std::function<bool()>& stop) = 0;
  // Connects to a server and returns a stream. See
  // ParameterServerExchange::Connector for the arguments and errors.
  virtual absl::StatusOr<std::unique_ptr<ExchangeStream>> ConnectToServer(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) = 0;

  // These two functions are for an all-reduce only. They write and read the
  // replica of the workers' state on server 0 (the coordinator). See the
  // functions of the same names in common/transport/replica_client.h.
  virtual std::unique_ptr<ReplicaStream> OpenReplicaStream(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) = 0;
  virtual absl::Status ReadReplica(const std::string& address,
                                   const ReadJournalRequest& request,
                                   Snapshot* snapshot) = 0;
  // For an all-reduce only: connects this worker to the other members of its
  // group, as ConnectGlooMesh does.
  virtual absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectToMembers(
      const GlooMeshOptions& options) = 0;

  // These two functions are for a pipeline only. The first one starts to accept
  // the transfers of other workers, as StageHost::Start does. The second one
  // connects to such a worker; see StageConnector.
  virtual absl::StatusOr<std::unique_ptr<StagePort>> AcceptTransfers(
      const StageHost::Options& options) = 0;
  virtual absl::StatusOr<StageCaller> ConnectToStage(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) = 0;
};

// Returns a WorkerNetwork that uses gRPC with these credentials.
std::unique_ptr<WorkerNetwork> MakeGrpcWorkerNetwork(const Security& security);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_WORKER_NETWORK_H_
