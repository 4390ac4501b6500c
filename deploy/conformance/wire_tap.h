// Stands between one worker and the servers of a job.
#ifndef TRIBUTARY_DEPLOY_CONFORMANCE_WIRE_TAP_H_
#define TRIBUTARY_DEPLOY_CONFORMANCE_WIRE_TAP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/os/log.h"
#include "deploy/conformance/conversation.h"
#include "proto/rendezvous.pb.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace tributary {

class Call;      // Implementation.
class Listener;  // server/service/listener.h

// Listens on one port for each server and relays the worker's calls, over TCP.
// Shows every message to a Conversation. Can refuse calls, break them, and hold
// back new weights. Thread-safe; only the destructor and Break block.
class WireTap {
 public:
  // Listens for a worker of a job with `servers` servers. `conversation` and
  // `log` must outlive this object.
  static absl::StatusOr<std::unique_ptr<WireTap>> Start(
      int servers, Conversation* conversation, Logger* log);
  // Breaks all calls, and waits until they have ended.
  ~WireTap();

  // The address that the worker uses for server 0.
  const std::string& address() const { return addresses_[0]; }
  // Sets the addresses of the servers, by shard.
  void Connect(std::vector<std::string> servers) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends all calls with `status`, and refuses later calls with it until Allow.
  void Break(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  // Refuses the next call of Membership with `status`, after its first message.
  void RefuseOnce(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void Allow() ABSL_LOCKS_EXCLUDED(mu_);
  // The number of calls of Membership, including those that were refused.
  int memberships() const ABSL_LOCKS_EXCLUDED(mu_);

  // Holds back weights of this version and later ones, of server 0, until
  // Release. The worker then cannot compute that step.
  void Hold(int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  void Release() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if weights are held back.
  bool holds() const ABSL_LOCKS_EXCLUDED(mu_);

  // ---- Implementation, called by the services.
  Conversation* conversation() const { return conversation_; }
  // Returns the refusal for a new call, or OK.
  absl::Status Admit(bool membership) ABSL_LOCKS_EXCLUDED(mu_);
  std::string ServerAddress(int shard) const ABSL_LOCKS_EXCLUDED(mu_);
  // Replaces the servers' addresses by those of this object.
  void Rewrite(CoordinatorOrder* order) const;
  // Returns true if weights of this version must be held back.
  bool MustHold(int shard, int64_t version) ABSL_LOCKS_EXCLUDED(mu_);
  // Keeps `call` until the end of this object.
  void Keep(std::unique_ptr<Call> call) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  WireTap(int servers, Conversation* conversation);
  // Returns all calls, which live as long as this object.
  std::vector<Call*> calls() const ABSL_LOCKS_EXCLUDED(mu_);

  Conversation* const conversation_;
  std::vector<std::string> addresses_;  // Constant after Start.

  mutable absl::Mutex mu_;
  std::vector<std::string> servers_ ABSL_GUARDED_BY(mu_);
  absl::Status refusal_ ABSL_GUARDED_BY(mu_);
  bool refuses_once_ ABSL_GUARDED_BY(mu_) = false;
  int memberships_ ABSL_GUARDED_BY(mu_) = 0;
  std::optional<int64_t> hold_ ABSL_GUARDED_BY(mu_);
  bool holds_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mu_);

  // In this order: listeners end before the services that they use.
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::vector<std::unique_ptr<Listener>> listeners_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CONFORMANCE_WIRE_TAP_H_
