// Contributions whose values show which micro-batches they contain, and a
// network that delivers them, for tests of consistency policies.
#ifndef TRIBUTARY_TESTS_COMMON_UPDATE_CONSISTENCY_CONTRIBUTIONS_H_
#define TRIBUTARY_TESTS_COMMON_UPDATE_CONSISTENCY_CONTRIBUTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "common/update/consistency/consistency_policy.h"
#include "proto/job.pb.h"

namespace tributary {

inline constexpr int kPolicyLeaves = 8;

// Returns a job of kPolicyLeaves micro-batches whose field
// exchange.parameter_server.consistency is `consistency`, in protobuf text.
JobSpec JobWithConsistency(const std::string& consistency);

// Return the policy, or a queue of the policy, that ConsistencyPolicy::Create
// creates for JobWithConsistency(consistency).
std::unique_ptr<ConsistencyPolicy> PolicyOf(const std::string& consistency,
                                            int64_t steps,
                                            int64_t first_step = 0);
std::unique_ptr<ContributionQueue> QueueOf(const std::string& consistency,
                                           int64_t steps,
                                           int64_t first_step = 0);

// Returns the contribution of one node of the reduction tree. It has one
// element, the sum of 2^m over the micro-batches m below the node.
NodeSum ContributionOf(int64_t step, int node);
// Returns the contribution of the root, computed from `base_version`.
NodeSum WholeBatch(int64_t step, int64_t base_version);

// Returns true if the decision is neither an update nor an outcome.
bool IsNothing(const ContributionQueue::Decision& decision);
// Return the update or the outcome in the decision; null if the decision is of
// a different kind.
const ChunkUpdate* UpdateIn(const ContributionQueue::Decision& decision);
const ContributionOutcome* OutcomeIn(
    const ContributionQueue::Decision& decision);
// Expects that the sum of the update contains each leaf exactly once.
void ExpectEachLeafOnce(const ChunkUpdate& update);

// A chunk whose updates take several events, and a network that delays,
// reorders and repeats contributions. Time is measured in events. Not
// thread-safe.
class UnreliableNetwork {
 public:
  UnreliableNetwork(std::unique_ptr<ContributionQueue> queue, uint32_t seed)
      : random_(seed), queue_(std::move(queue)) {}

  // Returns the number of updates applied to the chunk.
  int64_t version() const { return version_; }
  // Returns the number of contributions that were sent and have not arrived.
  size_t in_flight() const { return in_flight_.size(); }
  // Returns the number of contributions that have arrived, including repeated
  // ones.
  int64_t arrived() const { return arrived_; }
  // Returns a random number in [0, below).
  uint32_t Random(uint32_t below) { return random_() % below; }

  // Sends a contribution, sometimes twice.
  void Send(const NodeSum& sum);
  // Runs one event: may deliver a contribution, and begins or completes an
  // update. Returns the update that was completed, if any. Appends an outcome
  // without an update to `outcomes`.
  std::optional<ChunkUpdate> Tick(std::vector<ContributionOutcome>* outcomes);
  // Runs events until everything in flight has been delivered and the queue has
  // nothing left to do. Returns the completed updates.
  std::vector<ChunkUpdate> Drain(std::vector<ContributionOutcome>* outcomes);

 private:
  std::mt19937 random_;
  const std::unique_ptr<ContributionQueue> queue_;
  int64_t version_ = 0;
  int64_t arrived_ = 0;
  bool idle_ = true;  // True if the last decision of the queue was nothing.
  std::optional<ChunkUpdate> updating_;
  std::vector<NodeSum> in_flight_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_COMMON_UPDATE_CONSISTENCY_CONTRIBUTIONS_H_
