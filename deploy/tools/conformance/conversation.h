// Checks the messages between one worker and its servers.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_CONVERSATION_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "deploy/tools/conformance/fault.h"
#include "deploy/tools/conformance/worker_stay.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Observes the messages that a worker sends and receives, in all of its
// memberships. (A membership lasts from a Join message to the end of the
// worker's call of the Membership RPC.) Records the first fault: a message that
// a correct worker does not send, or a call that a server ended because of such
// a message. The servers check the values in the messages. This class checks
// the order of the messages, and whether they match the membership and the
// assignments of the worker. Thread-safe. No method blocks.
class Conversation {
 public:
  // The values that the worker's message Ready must contain: the parameters of
  // its model and the properties of its data set.
  struct Expected {
    ParameterTable table;
    DataFacts facts;
  };

  // If `expected` is nullopt, the contents of Ready are not checked.
  // `micro_batches` is batch.micro_batches of the job that ResolveJob returns.
  // `leases_steps` is true in consistency mode `asynchronous`, in which workers
  // lease steps (Claim, Claimed).
  Conversation(std::optional<Expected> expected, int micro_batches,
               bool leases_steps = false);

  // ---- Messages, in the order in which they pass.
  void OnReport(const WorkerReport& report) ABSL_LOCKS_EXCLUDED(mu_);
  void OnOrder(const CoordinatorOrder& order) ABSL_LOCKS_EXCLUDED(mu_);
  // Checks a message that the worker sends in a call of the Exchange RPC.
  // `call` identifies this call.
  void OnWorkerMessage(const void* call, const WorkerMessage& message)
      ABSL_LOCKS_EXCLUDED(mu_);
  void OnServerMessage(const ServerMessage& message) ABSL_LOCKS_EXCLUDED(mu_);
  // Called when a server has ended a call of the Membership or Exchange RPC
  // with `status`.
  void OnMembershipEnd(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void OnExchangeEnd(const void* call, const absl::Status& status)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Called when a conformance scenario (see WireTap::Break) has ended all calls
  // with `status`, as a server may do.
  void OnBroken(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // ---- What has happened so far.
  // Returns the first fault, or nullopt if there is none.
  std::optional<Fault> fault() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the number of Join messages that the worker has sent.
  int joins() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the worker has sent Hello to a server since it last joined
  // the job.
  bool connected() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the worker has received a Deal, the assignment of its work,
  // since it last joined the job.
  bool has_deal() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the worker has received Finished, which ends the job for
  // it, since it last joined the job.
  bool finished() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns how often a server has ended the worker's membership with a
  // transient error, after which the worker joins again.
  int dismissals() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the fault to report for a worker that sends no more messages: the
  // fault names the next message or action that the protocol requires of the
  // worker.
  Fault Pending() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Records a fault of the worker unless an earlier fault is recorded.
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
  // Checks that the worker may contribute this node of the summation tree to
  // this step: that the step was leased to it or, in the other modes, that the
  // node was assigned to it, and that all tables are complete at the step.
  void CheckWork(int64_t step, int node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnClaim() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnOutcome(const Outcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnEnd(const std::string& call, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::optional<Expected> expected_;
  const int micro_batches_;
  const bool leases_steps_;

  mutable absl::Mutex mu_;
  std::optional<Fault> fault_ ABSL_GUARDED_BY(mu_);
  int joins_ ABSL_GUARDED_BY(mu_) = 0;
  int dismissals_ ABSL_GUARDED_BY(mu_) = 0;
  bool may_join_ ABSL_GUARDED_BY(mu_) = true;
  WorkerStay stay_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_CONVERSATION_H_
