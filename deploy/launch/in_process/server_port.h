// What a server offers to the other members of its job in the same process.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_SERVER_PORT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_SERVER_PORT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/os/logger.h"
#include "common/parameters/snapshot.h"
#include "common/stream/local_calls.h"
#include "common/stream/replica_reader.h"
#include "common/stream/replica_stream.h"
#include "proto/journal.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/records/run_records.h"
#include "server/replication/replica_sessions.h"
#include "server/replication/replica_store.h"
#include "server/service/enlistment.h"
#include "server/service/weights_reader.h"
#include "server/service/weights_sessions.h"
#include "worker/exchange/parameter_server/server_connection.h"
#include "worker/process/membership_client.h"

namespace tributary {

// The calls to one server in one attempt (one run of the protocol), which the
// server's sessions answer as they answer calls over gRPC. Shared by the server
// and the streams to it. Thread-safe.
class ServerPort : public std::enable_shared_from_this<ServerPort> {
 public:
  // `coordinator` and `records` are null in all servers except shard 0. They
  // and `replicas` are used until ShutDown has returned; `executor` (see
  // LocalCalls) and `log` must outlive all streams.
  ServerPort(int shard, Coordinator* coordinator, RunRecords* records,
             ReplicaStore* replicas, Executor* executor, Logger* log);

  WeightsSessions* weights() { return &weights_; }
  ReplicaSessions* replicas() { return &replicas_; }

  // Ends the calls; see LocalCalls::ShutDown.
  void ShutDown(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(asking_mu_);

  // ---- For the other members: return the stream of a call, which the caller
  // starts.
  std::unique_ptr<MembershipStream> Membership();
  std::unique_ptr<EnlistmentStream> Enlistment();
  std::unique_ptr<ExchangeStream> Exchange();
  std::unique_ptr<WeightsReadStream> ReadWeights();
  std::unique_ptr<ReplicationClientStream> Replicate();
  std::unique_ptr<ReplicationClientStream> SaveState();
  // Read a replica; see ReadReplica in common/transport/replica_client.h.
  absl::Status ReadJournal(const ReadJournalRequest& request,
                           const ReplicaTarget& to);
  absl::Status ReadState(const ReadJournalRequest& request, Snapshot* snapshot);

  // ---- For the job's runner.
  // Returns the job's status; Unavailable after ShutDown.
  absl::StatusOr<StatusReply> GetStatus() ABSL_LOCKS_EXCLUDED(asking_mu_);
  // Stores the event. Returns Unavailable after ShutDown, and the errors of
  // RunRecords::Report.
  absl::Status Report(const EventReport& report)
      ABSL_LOCKS_EXCLUDED(asking_mu_);

 private:
  // Opens a call that is answered by the session that `make` of `sessions`
  // returns.
  template <typename In, typename Out, typename Sessions, typename Session>
  std::unique_ptr<ClientStream<Out, In>> Open(
      Sessions* sessions,
      std::unique_ptr<Session> (Sessions::*make)(ServerStream<Out>*));

  const std::string name_;
  Coordinator* const coordinator_;
  RunRecords* const records_;
  WeightsSessions weights_;
  ReplicaSessions replicas_;
  const std::shared_ptr<LocalCalls> calls_;
  // Held while the coordinator is asked.
  absl::Mutex asking_mu_;
  bool shut_down_ ABSL_GUARDED_BY(asking_mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_SERVER_PORT_H_
