// PeerMesh over TCP, using Gloo (https://github.com/facebookincubator/gloo).
//
// Uses Gloo's transport only. Gloo's own all-reduce adds in an order that
// depends on the number of members, and it cannot be cancelled.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_GLOO_MESH_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_GLOO_MESH_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

struct GlooMeshOptions {
  int rank = 0;
  int size = 1;
  // Host name or address under which the other members can reach this machine.
  std::string host = "127.0.0.1";
  // Time limit for the connection of two members that have both published their
  // addresses. If a member is lost before it connects, only this limit ends the
  // wait for it. Should exceed the lease, which is how long a member may be
  // silent before the coordinator treats it as lost.
  absl::Duration connect_timeout = absl::Seconds(30);
  // Time after which a message fails if the other member makes no progress with
  // it.
  absl::Duration timeout = absl::Minutes(10);
  // Rendezvous of the members. `publish` makes `bytes` available to all members
  // under `name`; no two members publish the same name. `find` blocks until a
  // member, possibly this one, has published `name`, and returns the bytes.
  std::function<absl::Status(const std::string& name, const std::string& bytes)>
      publish;
  std::function<absl::StatusOr<std::string>(const std::string& name)> find;
};

// Connects every pair of members. All members must call this function. The
// connections are neither encrypted nor authenticated. From then on, the
// process ignores SIGPIPE unless it has a handler: Gloo may write to a member
// that has exited. Returns Unavailable, with the reason, if `host` cannot be
// resolved, a connection fails or the mesh is not complete in time, and
// otherwise the error of `publish` or `find`.
absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectGlooMesh(
    const GlooMeshOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_GLOO_MESH_H_
