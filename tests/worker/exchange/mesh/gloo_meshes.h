// Meshes by Gloo between the threads of a test, on loopback.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_GLOO_MESHES_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_GLOO_MESHES_H_

#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// All members, by rank; empty after a failure, of which the test is told.
std::vector<std::unique_ptr<PeerMesh>> MakeGlooMeshes(
    int size, absl::Duration timeout = absl::Seconds(60));

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_GLOO_MESHES_H_
