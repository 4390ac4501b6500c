// How a server reaches the other processes of its job, and how they reach it.
#ifndef TRIBUTARY_SERVER_PROCESS_SERVER_NETWORK_H_
#define TRIBUTARY_SERVER_PROCESS_SERVER_NETWORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/parameters/arena_layout.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/records/run_records.h"
#include "server/replication/replica_network.h"
#include "server/replication/replica_store.h"
#include "server/service/enlistment.h"
#include "server/service/weights_service.h"

namespace tributary {

struct ServerOptions;

// The services that one server offers to other processes in one attempt (one
// run of the protocol). They accept no calls before Listen. Not thread-safe,
// except for the objects that weights() and replicas() return, which live as
// long as this object.
class AttemptServices {
 public:
  virtual ~AttemptServices() = default;

  // Returns the service that serves the weights to workers.
  virtual WeightsService* weights() = 0;
  // Returns the object that serves this server's in-memory replicas, and that
  // reads replicas from other servers.
  virtual ReplicaNetwork* replicas() = 0;
  // Returns the address at which processes on the same host reach this server;
  // see Enlist.local_address.
  virtual const LocalAddress& local_address() const = 0;

  // Begins to accept calls, and returns the host:port at which other processes
  // reach this server. Returns Unavailable if the address cannot be bound.
  virtual absl::StatusOr<std::string> Listen() = 0;
  // Sets whether health checks report that this server takes part in the job.
  // Call it after Listen.
  virtual void SetReady(bool ready) = 0;
  // Stops accepting calls, and waits for the calls in progress to end. Cancels
  // calls that are still open after `timeout`. After ShutDown has returned, no
  // call uses the objects that are served. Has no effect if repeated.
  virtual void ShutDown(absl::Duration timeout) = 0;
};

// Creates the services of this server, and its connections to other processes.
// Not thread-safe, except for ReadWeights.
class ServerNetwork {
 public:
  virtual ~ServerNetwork() = default;

  // Creates the services of an attempt. `coordinator` and `records`, which
  // answers GetRecords, are null in all servers except shard 0. All arguments
  // must outlive the result.
  virtual std::unique_ptr<AttemptServices> MakeServices(
      Coordinator* coordinator, RunRecords* records,
      ReplicaStore* replicas) = 0;

  // Connects to the coordinator and returns a stream, which the caller starts.
  // Returns the errors of ConnectToCoordinator in common/transport/channel.h.
  virtual absl::StatusOr<std::unique_ptr<EnlistmentStream>>
  ConnectToCoordinator(absl::Duration timeout,
                       const std::function<bool()>& stop) = 0;

  // Reads the weights of the server at `address`, which has `chunks` chunks,
  // into `arena`, which has room for all parameters of the model. Blocks for a
  // bounded time. Returns FailedPrecondition if the server does not have
  // `version` of all its chunks, Unavailable if it cannot be reached, and
  // DataLoss if its answer is malformed.
  virtual absl::Status ReadWeights(const std::string& address, int64_t version,
                                   const ArenaLayout& layout, size_t chunks,
                                   float* arena) = 0;
};

// Returns a ServerNetwork that uses gRPC. `options` must outlive the result.
std::unique_ptr<ServerNetwork> MakeGrpcServerNetwork(
    const ServerOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_SERVER_NETWORK_H_
