// Decides which workers a job begins with, and which model and data it uses.
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

// Every worker opens the data on its own machine, where the files may differ.
// The job uses the model and the data of more than half of the expected
// workers. If some of them do not join in time, or cannot take part, more than
// half of the ready workers decide. With one expected worker, the first one
// decides. A tie is an error, because either side may be right.
//
// A pure state machine; not thread-safe.
class StartQuorum {
 public:
  // The decision waits for `expected` workers, or for `timeout` after the first
  // ready worker. `data_known`: only workers with the job's data are added, so
  // the first one decides.
  StartQuorum(int expected, absl::Duration timeout, bool data_known);

  // Adds a ready worker with a model of this signature.
  void Add(const Member& member, const Ready& ready,
           const std::string& signature, absl::Time now);
  // Removes a worker that has left. No effect for unknown workers.
  void Remove(int64_t incarnation);
  // Records that a worker cannot take part, so the decision does not wait for
  // it. A worker that requests a rank counts once, however often it restarts,
  // until Add.
  void Refuse(const Member& member);

  struct Decision {
    Ready ready;
    // For example "worker 0 (host alpha, process 4711) and 2 more".
    std::string whose;
    // Workers with another model or other data, by incarnation.
    std::map<int64_t, Ready> outvoted;
  };
  // Returns nullopt while undecided. A tie is an InvalidArgument error that
  // names two workers that differ, and what they have.
  absl::StatusOr<std::optional<Decision>> Decide(absl::Time now);

  // Number of workers that training waits for.
  int awaited() const;
  // True if as many workers were refused as are expected.
  bool all_refused() const {
    return static_cast<int>(refused_.size()) >= expected_;
  }

 private:
  // Workers with the same model and data.
  struct Party {
    Ready ready;
    std::map<int64_t, std::string> names;  // By incarnation.
  };
  // Parties by size, the largest first.
  std::vector<const Party*> Parties() const;
  int ready_count() const;

  const int expected_;
  const absl::Duration timeout_;
  const bool data_known_;
  std::map<std::string, Party> parties_;  // By signature and facts.
  std::set<int64_t> refused_;             // See Place in the .cc file.
  absl::Time first_ready_ = absl::InfiniteFuture();
  std::optional<int> came_;  // Number of ready workers after `timeout`.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_START_QUORUM_H_
