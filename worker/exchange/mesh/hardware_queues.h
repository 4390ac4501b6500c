// The number of hardware queues of a GPU that NCCL needs.
#ifndef TRIBUTARY_WORKER_EXCHANGE_MESH_HARDWARE_QUEUES_H_
#define TRIBUTARY_WORKER_EXCHANGE_MESH_HARDWARE_QUEUES_H_

#include "absl/status/status.h"

namespace tributary {

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

#endif  // TRIBUTARY_WORKER_EXCHANGE_MESH_HARDWARE_QUEUES_H_
