// Gloo meshes between the threads of a test, over loopback.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_GLOO_MESHES_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_GLOO_MESHES_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// Returns the meshes of `size` members, by rank. If a member cannot connect,
// fails the test and returns an empty vector. See GlooMeshOptions for
// `timeout`.
std::vector<std::unique_ptr<PeerMesh>> MakeGlooMeshes(
    int size, absl::Duration timeout = absl::Seconds(60));

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_GLOO_MESHES_H_
