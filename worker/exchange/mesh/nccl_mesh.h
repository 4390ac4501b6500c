// DeviceMesh that sends messages from GPU to GPU using NCCL
// (https://github.com/NVIDIA/nccl), over NVLink, PCIe or the network.
//
// Uses NCCL's point-to-point messages only. NCCL's own all-reduce adds in an
// order that depends on the number of members.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_NCCL_MESH_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_NCCL_MESH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/cuda/libraries/nccl_library.h"
#include "worker/device/device.h"
#include "worker/exchange/mesh/device_mesh.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

struct NcclMeshOptions {
  // The library and the device must outlive the mesh. They are called only
  // while the mesh is being connected; the streams created then stay in use.
  NcclLibrary* library = nullptr;
  Device* device = nullptr;
  // Number of CUDA streams of this process, not counting the streams of the
  // mesh, which has one for each other member.
  int other_streams = 0;
  // Time limit for connecting and for each message.
  absl::Duration timeout = absl::Minutes(10);
};

// Connects every pair of members. All members must call this function.
//
// NCCL has no tags and does not detect lost members. The mesh `control`
// provides both: it detects lost members, and it carries all messages in host
// memory, the notices that a member waits for a message in GPU memory, and the
// tag and size of each message in GPU memory. An error in either mesh ends
// both. A message occupies the GPU only once both sides are ready; NCCL then
// moves it from its place in the sender's memory to its place in the receiver's
// memory. A message to a member and a message from this member form one
// operation on the GPU, so that neither direction can hold up the other. NCCL
// allocates the memory of all connections before this function returns: an
// allocation may wait for everything that runs on the GPU, which may wait for
// other members.
//
// Streams must not share hardware queues of the GPU if there are more than two
// members: see CheckHardwareQueues.
//
// Tags must be below 2^63. Returns Unavailable, naming the other member, if the
// connection fails, and InvalidArgument if there are too few hardware queues.
absl::StatusOr<std::unique_ptr<DeviceMesh>> ConnectNcclMesh(
    const NcclMeshOptions& options, std::unique_ptr<PeerMesh> control);

// Checks that the `queues` hardware queues of a GPU suffice for NCCL. With more
// than one peer, each CUDA stream needs a queue of its own. NCCL uses one
// stream for each peer; the rest of the process uses `other_streams`.
//
// The reason: work in a hardware queue waits for all work queued before, even
// from a different stream, and an operation of NCCL waits for its peer. If the
// operations with two peers share a queue, members can wait for one another in
// a cycle. With one peer there is no cycle.
//
// Returns InvalidArgument, which says what to change, if there are too few
// queues (see NcclLibrary::hardware_queues).
absl::Status CheckHardwareQueues(int peers, int other_streams, int queues);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_NCCL_MESH_H_
