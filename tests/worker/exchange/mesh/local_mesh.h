// A mesh between the threads of a test.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESH_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESH_H_

#include <memory>
#include <vector>

#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// Returns the meshes of `size` members, by rank. After a mesh has been
// destroyed or aborted, the operations of other members with it return
// Unavailable.
std::vector<std::unique_ptr<PeerMesh>> MakeLocalMeshes(int size);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESH_H_
