// Interface for messages between the members of an all-reduce group.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace tributary {

// Sends tagged messages between every pair of members. If a member is lost, or
// makes others wait beyond the time limit, pending and later operations with
// that member fail. A group that has lost a member is unusable: a member that
// receives the error must destroy its mesh, which ends the operations of the
// others.
//
// Thread-safe.
class PeerMesh {
 public:
  // A message in flight. The caller must not free or change the message's
  // memory until Wait has returned, or until the transfer is destroyed after
  // Abort. A transfer must not be destroyed earlier.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    // Blocks until the message has been sent or received completely. Must be
    // called at most once. Returns Unavailable, naming the other member, if the
    // message cannot be delivered, and Aborted after PeerMesh::Abort.
    virtual absl::Status Wait() = 0;
  };

  virtual ~PeerMesh() = default;

  // Return the number of this member, counted from 0, and the number of
  // members.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Start a transfer and return at once. A Send matches the Receive with the
  // same tag and size on the other member, in either order of calls. A tag may
  // be reused once its message has arrived. A transfer is fastest if Receive is
  // called before Send.
  virtual std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                         size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                            size_t bytes) = 0;

  // Makes all current and future calls of Transfer::Wait return. Other members
  // are notified now, or when the mesh is destroyed.
  virtual void Abort() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_
