// Checks the messages between one worker and its servers.
#ifndef TRIBUTARY_DEPLOY_CONFORMANCE_CONVERSATION_H_
#define TRIBUTARY_DEPLOY_CONFORMANCE_CONVERSATION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "deploy/conformance/fault.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Follows what a worker of a synchronous job sends and receives, in all of its
// memberships, and finds the first fault: a message that a correct worker does
// not send, or a call that a server ended because of one. The servers check the
// values that they can check by themselves; this class checks the order of the
// messages, and whether they belong to the membership and the assignment.
// Thread-safe. No method blocks.
class Conversation {
 public:
  // What Ready must state; nothing is compared if it is not set.
  struct Expected {
    ParameterTable table;
    DataFacts facts;
  };

  // `expected` may be nullopt. `micro_batches` is that of the job.
  Conversation(std::optional<Expected> expected, int micro_batches);

  // ---- Messages, in the order in which they pass.
  void OnReport(const WorkerReport& report) ABSL_LOCKS_EXCLUDED(mu_);
  void OnOrder(const CoordinatorOrder& order) ABSL_LOCKS_EXCLUDED(mu_);
  // `sender` identifies the call.
  void OnWorkerMessage(const void* call, const WorkerMessage& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnServerMessage(const ServerMessage& message) ABSL_LOCKS_EXCLUDED(mu_);
  // A server has ended a call with `status`.
  void OnMembershipEnd(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void OnExchangeEnd(const void* call, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);

  // ---- What has happened so far.
  std::optional<Fault> fault() const ABSL_LOCKS_EXCLUDED(mu_);
  int joins() const ABSL_LOCKS_EXCLUDED(mu_);
  bool has_deal() const ABSL_LOCKS_EXCLUDED(mu_);
  bool finished() const ABSL_LOCKS_EXCLUDED(mu_);
  // The number of memberships that a server has ended so that the worker joins
  // again.
  int dismissals() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns what the protocol requires of the worker next.
  Fault Pending() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // One membership, from Join to the end of the call.
  struct Stay {
    std::optional<Admission> admission;
    bool ready = false;
    std::optional<Open> open;
    std::set<const void*> exchanges;  // Calls that have sent Hello.
    std::set<int> announced;          // Chunks that a Welcome has listed.
    std::map<int, int64_t> versions;  // The newest version of each chunk.
    bool synced = false;
    std::vector<Deal> deals;
    std::set<std::tuple<int64_t, int, int>> sent;    // step, chunk, node
    std::set<std::pair<int64_t, int64_t>> reported;  // version, piece
    int64_t evaluated = 0;
    bool finished = false;
    bool stopped = false;
    bool left = false;
  };

  void Add(const std::string& what, const std::string& rule)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckJoin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckReady(const Ready& ready) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckSynced(const Synced& synced) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckEvaluation(const EvaluationReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckHello(const Hello& hello) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void CheckContribution(const Contribution& contribution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnEnd(const std::string& call, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns the smallest of the chunks' newest versions, or nullopt if a chunk
  // has none.
  std::optional<int64_t> Version() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::optional<Expected> expected_;
  const int micro_batches_;

  mutable absl::Mutex mu_;
  std::optional<Fault> fault_ ABSL_GUARDED_BY(mu_);
  int joins_ ABSL_GUARDED_BY(mu_) = 0;
  int dismissals_ ABSL_GUARDED_BY(mu_) = 0;
  bool may_join_ ABSL_GUARDED_BY(mu_) = true;
  Stay stay_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CONFORMANCE_CONVERSATION_H_
