// The number of hardware queues of a GPU that NCCL needs.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_HARDWARE_QUEUES_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_HARDWARE_QUEUES_H_

#include "absl/status/status.h"

namespace tributary {

// Work in a hardware queue waits for all work queued before, whatever its
// stream, and an operation of NCCL waits for the peer. If an operation with one
// peer waits in a queue behind one with another peer, members can wait for one
// another in a cycle. With more than one peer, each stream therefore needs a
// queue of its own: one for each peer, and `other_streams` for the rest of the
// process. With one peer there is no cycle.
//
// Returns InvalidArgument, with what to change, if `queues` are too few (see
// NcclLibrary::hardware_queues).
absl::Status CheckHardwareQueues(int peers, int other_streams, int queues);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_HARDWARE_QUEUES_H_
