// The state with which a member of an all-reduce begins.
#ifndef TRIBUTARY_WORKER_PROCESS_FIRST_STATE_H_
#define TRIBUTARY_WORKER_PROCESS_FIRST_STATE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/parameters/chunk_ranges.h"
#include "common/parameters/snapshot.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/all_reduce/chunk_routes.h"
#include "worker/process/membership_client.h"
#include "worker/process/worker_process.h"
#include "worker/state/weights_sink.h"
#include "worker/training/training_setup.h"

namespace tributary {

// Creates version 0 of the weights, and writes the chunks of `read` to `sink`.
// Returns the errors of TrainingSetup::MakeInitialWeights.
absl::Status MakeFirst(const TrainingSetup& setup, const ChunkRanges& read,
                       WeightsSink* sink);

// Reads the version that the attempt begins with from server 0: the weights and
// the optimizer's state of the chunks of `read`. Writes the weights to `sink`.
// Blocks. Returns NotFound if the server has only newer versions, or the error
// of the connection.
absl::StatusOr<Snapshot> ReadFirst(const WorkerOptions& options,
                                   const Open& open, const TrainingSetup& setup,
                                   const ChunkRanges& read, WeightsSink* sink);

// Publishes `bytes` under `name` to all members of the group.
void Publish(const std::string& name, const std::string& bytes,
             MembershipClient* membership);

// Compares version 0 of all members, which each of them has created itself. A
// program that draws its initial values from random numbers of its own would
// otherwise train a different model on each member. `arena` contains the
// weights that this member reads; its number is `member`. Blocks until the
// members have published theirs. Returns InvalidArgument, naming the first
// parameter that differs from that of the first member that contributes to its
// chunk.
absl::Status CompareFirst(const float* arena, int member,
                          const ChunkRoutes& routes, const ArenaLayout& layout,
                          MembershipClient* membership);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_FIRST_STATE_H_
