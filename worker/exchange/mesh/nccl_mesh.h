// A mesh whose large messages go from GPU to GPU by NCCL
// (https://github.com/NVIDIA/nccl): over NVLink, PCIe or the network, whatever
// it finds.
//
// Of that library only its messages between two processes: its own all-reduce
// adds in an order that depends on the number of members.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_NCCL_MESH_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_NCCL_MESH_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/device/device.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

struct NcclMeshOptions {
  // Must outlive the mesh. Used while the mesh is being connected only, but for
  // the streams and memory that are made then.
  NcclLibrary* library = nullptr;
  Device* device = nullptr;
  // The smallest and the largest message for NCCL; others go another way.
  size_t least_bytes = size_t{64} << 10;
  size_t most_bytes = size_t{3} << 20;
  // For a message, and for connecting.
  absl::Duration timeout = absl::Minutes(10);
};

// NCCL has neither tags nor a word for a member that is gone. Both come from
// another mesh beside it, `control`, which carries for each message its tag and
// size, and small messages whole, and which notices when a member is gone: an
// error there, or in NCCL, ends both. So a message occupies the GPU only when
// both of its sides are ready.
//
// All members must call it. Tags are below 2^63. Unavailable, naming the other
// member, if it does not come about.
absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectNcclMesh(
    const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_NCCL_MESH_H_
