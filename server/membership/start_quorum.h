// Which workers a job begins with, and by whose model and data.
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

// Every worker opens the data on its own machine, and one of them may have
// other files. The job goes by what more than half of the expected workers
// have. Where some of these do not come in time, or cannot take part, more than
// half of those that are ready decide; with one expected worker, the first. A
// tie cannot be decided, because either side may be right.
//
// A pure state machine; not thread-safe.
class StartQuorum {
 public:
  // After `timeout` from the first ready worker, nobody else is waited for.
  // `data_known`: only workers with the right data are added, so that the first
  // one decides.
  StartQuorum(int expected, absl::Duration timeout, bool data_known);

  // A worker is ready, with a model of this signature.
  void Add(const Member& member, const Ready& ready,
           const std::string& signature, absl::Time now);
  // It is out. Harmless for others.
  void Remove(int64_t incarnation);
  // A worker cannot take part: it is not waited for. With a rank of its own it
  // counts once, however often it is started again, until Add.
  void Refuse(const Member& member);

  struct Decision {
    Ready ready;
    // "worker 0 (host alpha, process 4711)", and how many have the same.
    std::string whose;
    // Workers that have something else, by incarnation.
    std::map<int64_t, Ready> outvoted;
  };
  // nullopt: it is open yet. InvalidArgument names two workers that disagree,
  // and what they have.
  absl::StatusOr<std::optional<Decision>> Decide(absl::Time now);

  // Workers that training waits for.
  int awaited() const;
  // As many cannot take part as were expected.
  bool all_refused() const {
    return static_cast<int>(refused_.size()) >= expected_;
  }

 private:
  // Workers that agree.
  struct Party {
    Ready ready;
    std::map<int64_t, std::string> names;  // By incarnation.
  };
  // By size, the largest first.
  std::vector<const Party*> Parties() const;
  int ready_count() const;

  const int expected_;
  const absl::Duration timeout_;
  const bool data_known_;
  std::map<std::string, Party> parties_;  // By signature and facts.
  std::set<int64_t> refused_;             // See Place in the .cc.
  absl::Time first_ready_ = absl::InfiniteFuture();
  std::optional<int> came_;  // How many, when the time was over.
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_MEMBERSHIP_START_QUORUM_H_
