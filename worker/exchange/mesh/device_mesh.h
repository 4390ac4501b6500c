// Interface for messages in GPU memory between the members of an all-reduce
// group.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_DEVICE_MESH_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_DEVICE_MESH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "worker/device/copies.h"
#include "worker/exchange/mesh/peer_mesh.h"

namespace tributary {

// A PeerMesh whose members have one GPU each. Send and Receive are for messages
// in host memory.
class DeviceMesh : public PeerMesh {
 public:
  // Like Send and Receive, for messages of at least one byte in the memory of
  // this member's GPU. A message is sent only after the other member has called
  // ReceiveOnDevice for it and `ready` has been reached; a null `ready` counts
  // as reached. The work that `ready` waits for must not depend on other
  // members. When Wait returns OK, the GPU has sent or received the message.
  virtual std::unique_ptr<Transfer> SendFromDevice(
      int to, uint64_t tag, const void* data, size_t bytes,
      std::shared_ptr<Event> ready) = 0;
  virtual std::unique_ptr<Transfer> ReceiveOnDevice(int from, uint64_t tag,
                                                    void* data,
                                                    size_t bytes) = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_DEVICE_MESH_H_
