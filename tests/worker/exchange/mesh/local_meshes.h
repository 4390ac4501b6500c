// The meshes of the members of one group, in the process of a test.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESHES_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESHES_H_

#include <memory>
#include <vector>

#include "worker/exchange/mesh/local_mesh_group.h"

namespace tributary {

// Returns the meshes of `size` members, by rank.
inline std::vector<std::unique_ptr<PeerMesh>> MakeLocalMeshes(int size) {
  const auto group = std::make_shared<LocalMeshGroup>(size, absl::Minutes(10));
  std::vector<std::unique_ptr<PeerMesh>> meshes;
  for (int rank = 0; rank < size; ++rank) {
    meshes.push_back(LocalMeshGroup::Join(group, rank));
  }
  return meshes;
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_MESH_LOCAL_MESHES_H_
