// A mesh between the threads of a test.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESH_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESH_H_

#include <memory>
#include <vector>

#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// All members, by rank. One that is destroyed is gone for the others.
std::vector<std::unique_ptr<PeerMesh>> MakeLocalMeshes(int size);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESH_H_
