// Decides which workers a job begins with, and which model and data the job
// uses.
#ifndef TRIBUTARY_SERVER_MEMBERSHIP_START_QUORUM_H_
#define TRIBUTARY_SERVER_MEMBERSHIP_START_QUORUM_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"

namespace tributary {

// Decides which model and which data the job uses. Every worker opens the data
// on its own machine, where the files may differ. The job uses the model and
// the data of more than half of the expected workers. If some of the expected
// workers do not join in time, or cannot take part, the job uses the model and
// the data of more than half of the ready workers. With one expected worker,
// the first worker decides. It is an error if no model and data have this
// majority, because any of them may be right.
//
// A pure state machine; not thread-safe.
class StartQuorum {
 public:
  // The decision waits until more than half of `expected` workers agree, or
  // until `expected` workers are ready or refused, but at most until `timeout`
  // after the first worker is ready. At most `most` workers may come; a value
  // below `expected` counts as `expected`. With `data_known`, the caller adds
  // only workers that have the job's data, so the first worker decides.
  StartQuorum(int expected, int most, absl::Duration timeout, bool data_known);

  // Adds a ready worker. `signature` is the signature of the worker's model
  // (the hash of its parameter table).
  void Add(const Member& member, const Ready& ready,
           const std::string& signature, absl::Time now);
  // Removes a worker that has left. No effect if the worker was not added.
  void Remove(int64_t incarnation);
  // Records that a worker cannot take part, so the decision does not wait for
  // it. A worker that requests a rank counts once, even if it restarts and is
  // refused repeatedly. A later Add of the worker cancels the refusal.
  void Refuse(const Member& member);

  // The model and the data that the job uses.
  struct Decision {
    Ready ready;
    // The workers that have this model and data, for example "worker 0 (host
    // alpha, process 4711) and 2 more".
    std::string whose;
    // The reports of the workers with a different model or different data,
    // indexed by incarnation (the number that a worker got when it joined).
    std::map<int64_t, Ready> outvoted;
  };
  // Returns the decision, or nullopt if it is too early to decide. Returns
  // InvalidArgument if there is no majority; the message names two workers that
  // differ, and describes the model and the data of each.
  absl::StatusOr<std::optional<Decision>> Decide(absl::Time now);

  // Returns the number of workers that must be synced (have all weights) before
  // training starts, unless the start timeout passes first.
  int awaited() const;
  // Returns true if as many workers were refused as may come.
  bool all_refused() const {
    return static_cast<int>(refused_.size()) >= most_;
  }

 private:
  // All workers that have reported the model and the data in `ready`.
  struct Party {
    Ready ready;
    std::map<int64_t, std::string> names;  // Member names by incarnation.
  };
  // Returns all parties, the largest first.
  std::vector<const Party*> Parties() const;
  int ready_count() const;

  const int expected_;
  const int most_;
  const absl::Duration timeout_;
  const bool data_known_;
  // The parties. The key is the signature of the model, followed by the
  // serialized description of the data (DataFacts).
  std::map<std::string, Party> parties_;
  // The refused workers. A worker is identified by the rank that it has
  // requested or, if it has requested none, by -incarnation.
  std::set<int64_t> refused_;
  absl::Time first_ready_ = absl::InfiniteFuture();
  // The number of workers that were ready when Decide stopped waiting for other
  // workers because `timeout` had passed. Absent if Decide has not stopped
  // waiting for this reason.
  std::optional<int> arrived_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_START_QUORUM_H_
