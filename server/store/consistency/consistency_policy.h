// How one consistency mode turns contributions into the versions of a chunk.
#ifndef TRIBUTARY_SERVER_STORE_CONSISTENCY_CONSISTENCY_POLICY_H_
#define TRIBUTARY_SERVER_STORE_CONSISTENCY_CONSISTENCY_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "common/numerics/half.h"
#include "server/store/aggregation/chunk_aggregator.h"

namespace tributary {

// What a worker is to be told of its contribution.
struct ContributionOutcome {
  int64_t step = 0;
  // False: the chunk has had the step. True: the contribution is too old and
  // must be computed again.
  bool refused = false;
  int64_t age = 0;       // Its staleness.
  int64_t receiver = 0;  // NodeSum::sender.
};

// What the chunk's next version is made of.
struct ChunkUpdate {
  int64_t step = 0;  // That the gradient belongs to.
  TreeSum sum;
  // Of the batch's mean gradient, where contributions bring it along.
  double gradient_norm = 0;
  // The learning rate is divided by it; 1 does not change its bits.
  double learning_rate_divisor = 1;
  // To be told when the version has been published; absent: nobody is told.
  std::optional<ContributionOutcome> outcome;
};

// The contributions to one chunk: a state machine that decides which ones are
// accepted and when a step is complete. In whatever order and however often
// contributions come, each step is applied to the chunk exactly once.
//
// The caller promises that
// - calls do not overlap (the queue is not thread-safe, and never blocks);
// - `version` is the newest version of the chunk, -1 while it has none, and
//   grows by one with each update that Next has returned;
// - `sum.step` is at least 0, `sum.node` is one of the tree's, and the sample
//   count is not negative.
class ContributionQueue {
 public:
  virtual ~ContributionQueue() = default;

  // Accepts a contribution, or drops it where it is not needed any more. It may
  // come while an update is under way. Errors name the step, are the sender's
  // fault, and leave the queue as it was: FailedPrecondition for a step that
  // the sender cannot be at, InvalidArgument for what no step accepts,
  // ResourceExhausted where too many wait.
  virtual absl::Status Add(int64_t version, NodeSum sum) = 0;

  // What the accepted contributions lead to at `version`: an update, which has
  // left the queue and must have become `version` + 1 before Next is called
  // again; a contribution that is answered without an update; or nothing until
  // more is added.
  using Decision =
      std::variant<std::monostate, ChunkUpdate, ContributionOutcome>;
  virtual Decision Next(int64_t version) = 0;
};

// The rule of a job's consistency mode, one for all chunks of a server.
// Immutable, and safe from any thread.
class ConsistencyPolicy {
 public:
  // What every mode needs of the job.
  struct Options {
    int leaves = 1;  // Of the reduction tree.
    WireDtype dtype = ExchangeSpec::FLOAT32;
    int64_t steps = 0;       // As servers count them: rounds.
    int64_t first_step = 0;  // Chunks have had the steps below.
  };

  virtual ~ConsistencyPolicy() = default;

  // For one chunk. May outlive the policy.
  virtual std::unique_ptr<ContributionQueue> NewQueue() const = 0;

  // How many of a chunk's versions workers can still need, at most 2, the
  // newest included. 2: chunks may be one step apart, and a worker that
  // computes the step needs the older version of those ahead (see
  // ParameterStore). 1: workers compute from whatever is newest.
  virtual int useful_versions() const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_STORE_CONSISTENCY_CONSISTENCY_POLICY_H_
