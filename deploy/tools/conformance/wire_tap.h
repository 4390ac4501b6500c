// A proxy between one worker and the servers of its job.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_WIRE_TAP_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_WIRE_TAP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/os/logger.h"
#include "common/transport/security.h"
#include "deploy/tools/conformance/conversation.h"
#include "proto/rendezvous.pb.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace tributary {

class Call;      // Defined in relayed_call.h.
class Listener;  // common/listener/listener.h

// A relay between one worker and the servers, for conformance tests. Listens on
// one TCP port for each server, and relays the calls of the worker to the
// servers. Passes every message to a Conversation. Can refuse calls, end them,
// and hold back new weights. Thread-safe; only the destructor blocks.
class WireTap {
 public:
  // Starts to listen on loopback for a worker of a job with `servers` servers.
  // The worker must have the credentials that `security` requires.
  // `conversation` and `log` must outlive this object. Returns the error of
  // Listener::Start if a port cannot be opened.
  static absl::StatusOr<std::unique_ptr<WireTap>> Start(
      int servers, const Security& security, Conversation* conversation,
      Logger* log);
  // Ends all relayed calls with Unavailable, and waits until they have ended.
  ~WireTap();

  // Returns the address at which the worker reaches server 0, as host:port.
  const std::string& address() const { return addresses_[0]; }
  // Sets the addresses of the servers, indexed by shard, for calls that begin
  // from now on. Must be called before the worker connects, and may be called
  // again.
  void Connect(std::vector<std::string> servers) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all relayed calls with `status`, and refuses further calls with
  // `status` until Allow is called.
  void Break(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Refuses the next call of the Membership RPC with `status`, after the
  // client's first message. Later calls, and calls of the Exchange RPC, are
  // accepted.
  void RefuseOnce(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Accepts calls of the worker again, after Break.
  void Allow() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the number of calls of the Membership RPC so far, including refused
  // calls.
  int memberships() const ABSL_LOCKS_EXCLUDED(mu_);

  // Drops the initial values that the worker sends, as if it were lost before
  // it sends them. Must be called before the worker connects.
  void DropInitial() ABSL_LOCKS_EXCLUDED(mu_);

  // Holds back the weights of server 0 at `version` and later versions until
  // Release is called. The worker then cannot compute step `version`.
  void Hold(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  void Release() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if weights are held back.
  bool holds() const ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Implementation, called by the services.
  Conversation* conversation() const { return conversation_; }
  // Returns the error with which a new call must be refused, or OK.
  // `membership` is true for a call of the Membership RPC, which is counted,
  // and false for a call of the Exchange RPC.
  absl::Status Admit(bool membership) ABSL_LOCKS_EXCLUDED(mu_);
  std::string ServerAddress(int shard) const ABSL_LOCKS_EXCLUDED(mu_);
  // If `order` is an Admission, replaces the servers' addresses in it by the
  // addresses of this relay, so that the worker connects to the relay.
  void Rewrite(CoordinatorOrder* order) const;
  bool drops_initial() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if weights of server `shard` at this version must be held
  // back.
  bool MustHold(int shard, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Takes ownership of `call`, which lives as long as this object.
  void Keep(std::unique_ptr<Call> call) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  WireTap(int servers, Conversation* conversation);
  // Returns all relayed calls, which live as long as this object.
  std::vector<Call*> calls() const ABSL_LOCKS_EXCLUDED(mu_);

  Conversation* const conversation_;
  std::vector<std::string> addresses_;  // Constant after Start.

  mutable absl::Mutex mu_;
  std::vector<std::string> servers_ ABSL_GUARDED_BY(mu_);
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
  bool refuses_once_ ABSL_GUARDED_BY(mu_) = false;
  int memberships_ ABSL_GUARDED_BY(mu_) = 0;
  bool drops_initial_ ABSL_GUARDED_BY(mu_) = false;
  // The first version of the weights that is held back; nullopt if none is.
  std::optional<int64_t> hold_ ABSL_GUARDED_BY(mu_);
  // True if a message with weights is being held back.
  bool holds_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);

  // `services_` is declared before `listeners_`, so that the listeners are
  // destroyed before the services that they use.
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_WIRE_TAP_H_
