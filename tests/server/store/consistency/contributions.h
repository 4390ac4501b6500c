// Contributions with values that say which micro-batches they contain, and a
// network that delivers them, for tests of consistency policies.
#ifndef TRIBUTARY_TESTS_SERVER_STORE_CONSISTENCY_CONTRIBUTIONS_H_
#define TRIBUTARY_TESTS_SERVER_STORE_CONSISTENCY_CONTRIBUTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "server/store/consistency/consistency_policy.h"

namespace tributary {

inline constexpr int kPolicyLeaves = 8;

// A job of 8 micro-batches in the mode that `consistency` sets.
JobSpec JobWithConsistency(const std::string& consistency);

// The policy of the mode, as CreateConsistencyPolicy makes it.
std::unique_ptr<ConsistencyPolicy> PolicyOf(const std::string& consistency,
                                            int64_t steps,
                                            int64_t first_step = 0);
std::unique_ptr<ContributionQueue> QueueOf(const std::string& consistency,
                                           int64_t steps,
                                           int64_t first_step = 0);

// The sum of one node of the tree.
NodeSum ContributionOf(int64_t step, int node);
// That of the root, computed from `base_version`.
NodeSum WholeBatch(int64_t step, int64_t base_version);

bool IsNothing(const ContributionQueue::Decision& decision);
// Null if it is not an update, or not an outcome.
const ChunkUpdate* UpdateIn(const ContributionQueue::Decision& decision);
const ContributionOutcome* OutcomeIn(
    const ContributionQueue::Decision& decision);
// Each leaf is in the update's sum exactly once.
void ExpectEachLeafOnce(const ChunkUpdate& update);

// A chunk whose updates take a while, and a network that delays, reorders and
// repeats whatever is sent. Time is the number of events. Not thread-safe.
class UnreliableNetwork {
 public:
  UnreliableNetwork(std::unique_ptr<ContributionQueue> queue, uint32_t seed)
      : random_(seed), queue_(std::move(queue)) {}

  int64_t version() const { return version_; }
  // Contributions that were sent and have not arrived.
  size_t in_flight() const { return in_flight_.size(); }
  // Contributions that have arrived, repeated ones included.
  int64_t arrived() const { return arrived_; }
  uint32_t Random(uint32_t below) { return random_() % below; }

  void Send(const NodeSum& sum);
  // Something happens. Returns what was applied, if anything was, and appends
  // outcomes without an update to `outcomes`.
  std::optional<ChunkUpdate> Tick(std::vector<ContributionOutcome>* outcomes);
  // Delivers what is in flight, until nothing happens any more.
  std::vector<ChunkUpdate> Drain(std::vector<ContributionOutcome>* outcomes);

 private:
  std::mt19937 random_;
  const std::unique_ptr<ContributionQueue> queue_;
  int64_t version_ = 0;
  int64_t arrived_ = 0;
  bool idle_ = true;  // The last Next had nothing.
  std::optional<ChunkUpdate> updating_;
  std::vector<NodeSum> in_flight_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SERVER_STORE_CONSISTENCY_CONTRIBUTIONS_H_
