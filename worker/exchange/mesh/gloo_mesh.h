// A mesh of TCP connections by Gloo
// (https://github.com/facebookincubator/gloo).
//
// Of that library only its transport: its own all-reduce adds in an order that
// depends on the number of members, and cannot be called off.
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
  // The name or number of this machine's address that the others can reach.
  std::string host = "127.0.0.1";
  // For a message whose other end does nothing, and for connecting.
  absl::Duration timeout = absl::Minutes(10);
  // How members find each other. `publish` tells the others some bytes under a
  // name, which differs between members; `find` waits for what one of them,
  // this one included, has published under it.
  std::function<absl::Status(const std::string& name, const std::string& bytes)>
      publish;
  std::function<absl::StatusOr<std::string>(const std::string& name)> find;
};

// Connects every two members; all must call it. The connections are neither
// encrypted nor authenticated. Gloo writes to them without a care for SIGPIPE,
// which the process must ignore: a member may be gone. Unavailable, with the
// reason, if it does not come about in time; the error of `publish` or `find`.
absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectGlooMesh(
    const GlooMeshOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_GLOO_MESH_H_
