// A worker's network that changes what the worker sends.
#ifndef TRIBUTARY_TESTS_SUPPORT_LYING_NETWORK_H_
#define TRIBUTARY_TESTS_SUPPORT_LYING_NETWORK_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/stream/message_stream.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/process/worker_network.h"

namespace tributary {

class LyingNetwork;

// What a worker does wrong. Each function may change a message before it is
// sent, and returns false to drop it. Called on any thread, also concurrently.
// May be null.
struct Lies {
  std::function<bool(WorkerReport*)> report;
  // `send` sends a further message to the same server, before this one.
  using Send = std::function<void(const WorkerMessage&, OutgoingPayload)>;
  std::function<bool(WorkerMessage*, OutgoingPayload*, const Send& send,
                     LyingNetwork* network)>
      message;
};

// Connects over gRPC on loopback, without credentials. A worker can join only
// once. Thread-safe.
class LyingNetwork final : public WorkerNetwork {
 public:
  explicit LyingNetwork(Lies lies);
  ~LyingNetwork() override;

  // Sends a report to the coordinator, as it is. Call it in Lies::message only.
  void Report(const WorkerReport& report) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until the worker has sent Ready, or has dropped it.
  void AwaitReady() { ready_.WaitForNotification(); }

  absl::StatusOr<std::unique_ptr<MembershipStream>> ConnectToCoordinator(
      const std::string& address, absl::Duration timeout,
      const std::function<bool()>& stop) override ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<std::unique_ptr<ExchangeStream>> ConnectToServer(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) override;
  std::unique_ptr<ReplicaStream> OpenReplicaStream(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override;
  absl::Status ReadReplica(const std::string& address,
                           const ReadJournalRequest& request,
                           Snapshot* snapshot) override;
  absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectToMembers(
      const GlooMeshOptions& options) override;
  absl::StatusOr<std::unique_ptr<StagePort>> AcceptTransfers(
      const StageHost::Options& options) override;
  absl::StatusOr<StageCaller> ConnectToStage(
      const std::string& address, absl::Time deadline,
      const std::function<bool()>& stop) override;

 private:
  // Returns false if the report is to be dropped.
  bool Change(WorkerReport* report);

  const Lies lies_;
  const std::unique_ptr<WorkerNetwork> honest_;
  absl::Notification ready_;
  absl::Mutex mu_;
  bool joined_ ABSL_GUARDED_BY(mu_) = false;
  // Owned by the worker.
  MembershipStream* membership_ ABSL_GUARDED_BY(mu_) = nullptr;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_LYING_NETWORK_H_
