// What becomes of contributions to a chunk: the one place that knows the rule
// of each consistency mode.
#ifndef TRIBUTARY_SERVER_STORE_CHUNK_INTAKE_H_
#define TRIBUTARY_SERVER_STORE_CHUNK_INTAKE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "server/store/aggregation/chunk_aggregator.h"

namespace tributary {

// A contribution to one chunk, as it came in.
struct IncomingSum {
  int64_t step = 0;
  int node = 1;  // One of the tree's.
  NodeSum sum;
  // Asynchronous mode only: see Contribution.
  int64_t base_version = 0;
  double gradient_norm = 0;
  // WeightsSubscriber::id of who sent it, and is to be told what became of it;
  // 0: nobody.
  int64_t sender = 0;
};

// What the chunk's next version is made of.
struct ChunkUpdate {
  int64_t step = 0;  // That the gradient belongs to.
  TreeSum sum;
  // Versions made since the one that the gradient was computed from. 0 in
  // modes that apply steps in order.
  int64_t staleness = 0;
  // Of the batch's mean gradient. Asynchronous mode only.
  double gradient_norm = 0;
  int64_t sender = 0;
};

// A contribution that is not applied, and needs no more reading.
struct Rejection {
  int64_t step = 0;
  // False: the chunk has had the step, all is well. True: it is too old and
  // must be computed again.
  bool refused = false;
  int64_t age = 0;  // Its staleness.
  int64_t sender = 0;
};

// Turns contributions, in whatever order and however often they come, into
// updates such that each step is applied to the chunk exactly once. A pure
// state machine: the caller says what version the chunk has, takes the updates
// one at a time and makes each the next version. Not thread-safe.
class ChunkIntake {
 public:
  // The mode of the job, which is resolved; `steps` as servers count them. The
  // chunk has had the steps below `first_step`.
  static std::unique_ptr<ChunkIntake> Create(const JobSpec& job, int64_t steps,
                                             int64_t first_step = 0);

  virtual ~ChunkIntake() = default;

  // Takes a contribution to a chunk that has `version` (-1: none yet). What is
  // not needed any more is dropped. FailedPrecondition or InvalidArgument,
  // naming the step, for what no honest worker sends; nothing has changed then.
  virtual absl::Status Add(int64_t version, IncomingSum sum) = 0;

  // What the contributions that were added lead to at `version`: an update,
  // which is no longer here and must have become version + 1 before the next
  // call; a contribution that is answered without one; or nothing until more is
  // added.
  using Decision = std::variant<std::monostate, ChunkUpdate, Rejection>;
  virtual Decision Next(int64_t version) = 0;
};

// Versions of a chunk that are of use to workers: in synchronous mode the
// newest and the one before it (see ParameterStore), in the modes that let
// versions differ from chunk to chunk the newest.
int UsefulVersions(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_CHUNK_INTAKE_H_
