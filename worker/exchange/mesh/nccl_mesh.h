// PeerMesh that sends large messages from GPU to GPU using NCCL
// (https://github.com/NVIDIA/nccl), over NVLink, PCIe or the network.
//
// Uses NCCL's point-to-point messages only. NCCL's own all-reduce adds in an
// order that depends on the number of members.
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
  // The library and the device must outlive the mesh. They are called only
  // while the mesh is being connected; the streams and the memory created then
  // stay in use.
  NcclLibrary* library = nullptr;
  Device* device = nullptr;
  // Sizes, in bytes, of the smallest and the largest message that NCCL sends.
  // All other messages use the control mesh.
  size_t least_bytes = size_t{64} << 10;
  size_t most_bytes = size_t{3} << 20;
  // Number of CUDA streams of this process, not counting the streams of the
  // mesh, which has one for each other member.
  int other_streams = 0;
  // Time limit for connecting and for each message.
  absl::Duration timeout = absl::Minutes(10);
};

// Connects every pair of members. All members must call this function.
//
// NCCL has no tags and does not detect lost members. The mesh `control`
// provides both: it carries the tag and size of each message, carries small
// messages entirely, and detects lost members. An error in either mesh ends
// both. A message occupies the GPU only once both sides are ready. A message to
// a member and one from it are one operation on the GPU, so that neither
// direction can hold up the other. The memory of all connections is allocated
// before this function returns: an allocation may wait for everything that runs
// on the GPU, which may wait for other members.
//
// Streams must not share hardware queues of the GPU if there are more than two
// members: see NcclLibrary::hardware_queues.
//
// Tags must be below 2^63. Returns Unavailable, naming the other member, if the
// connection fails, and InvalidArgument if there are too few hardware queues.
absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectNcclMesh(
    const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_NCCL_MESH_H_
