// Interface for messages between the members of an all-reduce group.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace tributary {

// Sends tagged messages between every pair of members. If a member is lost, or
// makes others wait beyond the time limit, every pending and later operation
// fails: a group that has lost a member is unusable.
//
// Thread-safe.
class PeerMesh {
 public:
  // A message in flight. Its memory is in use until Wait has returned.
  // Destroying a transfer before that requires a preceding Abort.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    // Blocks until the message is complete. Must be called at most once.
    // Returns Unavailable, naming the other member, if the message cannot be
    // delivered, and Aborted after Abort.
    virtual absl::Status Wait() = 0;
  };

  virtual ~PeerMesh() = default;

  // Members are numbered from 0.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Start a transfer and return at once. A Send matches the Receive with the
  // same tag and size on the other member, in either order of calls. A tag may
  // be reused once its message has arrived. Messages cost least if Receive is
  // called first.
  virtual std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                         size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                            size_t bytes) = 0;

  // Ends every Wait, now and in the future. Other members are notified only
  // when the mesh is destroyed.
  virtual void Abort() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_
