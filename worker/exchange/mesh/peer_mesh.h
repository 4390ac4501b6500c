// Messages between every two members of a group of workers: what an all-reduce
// is made of.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"

namespace tributary {

// Thread-safe. A member that is gone, or that keeps the others waiting for too
// long, is an error of whatever waits for it, and of all that comes after it:
// a group that has lost a member is of no use any more.
class PeerMesh {
 public:
  // A message that is on its way. Its memory is used until Wait has returned;
  // whoever destroys it earlier must have called Abort.
  class Transfer {
   public:
    virtual ~Transfer() = default;
    // To be called once. Unavailable, naming the other member, when the message
    // cannot come through; Aborted after Abort.
    virtual absl::Status Wait() = 0;
  };

  virtual ~PeerMesh() = default;

  // Members are numbered from 0.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Both return at once. A message goes to the Receive of the same tag and size
  // over there, whichever of the two is called first; a tag may be used again
  // when its message has come. Messages cost least where Receive comes first.
  virtual std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                         size_t bytes) = 0;
  virtual std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                            size_t bytes) = 0;

  // Ends every Wait, now and later. Over there nobody is told before the mesh
  // is destroyed.
  virtual void Abort() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_PEER_MESH_H_
