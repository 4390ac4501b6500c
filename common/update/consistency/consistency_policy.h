// The interface of consistency modes. A consistency mode decides which
// contributions (gradient sums of a chunk that workers send) are accepted, and
// when they become a new version of the chunk.
#ifndef TRIBUTARY_COMMON_UPDATE_CONSISTENCY_CONSISTENCY_POLICY_H_
#define TRIBUTARY_COMMON_UPDATE_CONSISTENCY_CONSISTENCY_POLICY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/numerics/half.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "proto/job.pb.h"

namespace tributary {

// Whether a contribution was applied. The server sends this outcome to the
// worker that sent the contribution. Used only in mode `asynchronous`.
struct ContributionOutcome {
  int64_t step = 0;
  // True if the contribution is too stale and must be computed again. False if
  // the step is applied, by this contribution or by an earlier one.
  bool refused = false;
  int64_t age = 0;       // Staleness of the contribution, in versions.
  int64_t receiver = 0;  // NodeSum::sender of the contribution.
};

// The inputs from which a chunk's next version is computed.
struct ChunkUpdate {
  int64_t step = 0;  // The step of the gradient.
  TreeSum sum;
  // L2 norm of the batch's mean gradient. Used only in modes in which
  // contributions contain this norm.
  double gradient_norm = 0;
  // The learning rate is divided by this number. A divisor of 1 leaves the bits
  // of the learning rate unchanged.
  double learning_rate_divisor = 1;
  // The learning rate that workers have stated for the step; absent: none.
  std::optional<double> learning_rate;
  // The outcome to send, after the new version has been published, to the
  // worker whose contribution is applied. If absent, nothing is sent.
  std::optional<ContributionOutcome> outcome;
};

// The contributions to one chunk: a state machine that decides which
// contributions are accepted and when a step is complete. Each step is applied
// to the chunk exactly once, for any order and any repetition of contributions.
//
// The caller must ensure that
// - calls do not overlap (the queue is not thread-safe, and never blocks);
// - `version` is the newest version of the chunk, or -1 while it has none, and
//   increases by one for each update that Next returned;
// - `sum.step` is at least 0, `sum.node` is a node of the reduction tree, and
//   the sample count is not negative.
class ContributionQueue {
 public:
  virtual ~ContributionQueue() = default;

  // Accepts a contribution, or drops it if it is no longer needed. May be
  // called while an update is under way. An error means that the sender is at
  // fault, and leaves the queue unchanged. Returns FailedPrecondition for a
  // step that the sender cannot have reached, InvalidArgument for a
  // contribution that is invalid for every step, and ResourceExhausted if the
  // queue contains too many contributions.
  virtual absl::Status Add(int64_t version, NodeSum sum) = 0;
  // Drops the contributions of this contributor that no update contains yet.
  virtual void DropFrom(int64_t contributor) = 0;
  // Returns a micro-batch that the step after `version` waits for; nullopt if
  // there is none, or if steps have no order.
  virtual std::optional<int> FirstMissing(int64_t version) const = 0;

  // What the caller must do next: apply an update, send the outcome of a
  // contribution that causes no update, or nothing until the next Add.
  using Decision =
      std::variant<std::monostate, ChunkUpdate, ContributionOutcome>;
  // Returns what the caller must do at `version`. A returned update is removed
  // from the queue. The caller must apply it, which makes version `version` +
  // 1, before the next call of Next.
  virtual Decision Next(int64_t version) = 0;
};

// Implements a consistency mode for all chunks of a server. Immutable and
// thread-safe.
class ConsistencyPolicy {
 public:
  // The parameters that every consistency mode uses.
  struct Options {
    int leaves = 1;  // Number of leaves of the reduction tree.
    WireDtype dtype = ExchangeSpec::FLOAT32;
    int64_t steps = 0;       // Number of rounds (what servers count as steps).
    int64_t first_step = 0;  // Steps below this one are already applied.
  };

  // Creates the policy for the job's consistency mode. `job` must be a result
  // of ResolveJob or JobOfRounds. `steps` and `first_step` are those of
  // Options. Returns InvalidArgument for an all-reduce, which has no
  // consistency mode.
  static absl::StatusOr<std::unique_ptr<ConsistencyPolicy>> Create(
      const JobSpec& job, int64_t steps, int64_t first_step);

  virtual ~ConsistencyPolicy() = default;

  // How far a step is, for a group of chunks that take each step together.
  struct Progress {
    // A micro-batch that no contribution covers; nullopt if there is none.
    std::optional<int> missing_leaf;
    // Number of chunks of the group whose gradients are not summed yet.
    int missing_chunks = 0;
  };
  // Returns true if the step is complete: with the contributions of one chunk,
  // and no missing chunks, if they may be applied, and with the sums of a
  // group, if they may be reported.
  virtual bool IsComplete(const Progress& progress) const {
    return !progress.missing_leaf.has_value() && progress.missing_chunks == 0;
  }

  // Creates the queue of one chunk. The queue may outlive the policy.
  virtual std::unique_ptr<ContributionQueue> NewQueue() const = 0;

  // Returns how many versions of a chunk workers may need, including the newest
  // version. 1 means that workers always compute from the newest version. 2
  // means that chunks may be one step apart: a worker that computes a step then
  // needs the older version of the chunks that are ahead (see UpdateEngine).
  virtual int useful_versions() const = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_CONSISTENCY_CONSISTENCY_POLICY_H_
