// Replicates server state over gRPC: both the client and the server side.
// proto/journal.proto defines the protocol.
#ifndef TRIBUTARY_SERVER_REPLICATION_REPLICA_SERVICE_H_
#define TRIBUTARY_SERVER_REPLICATION_REPLICA_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/transport/live_calls.h"
#include "common/transport/security.h"
#include "proto/journal.grpc.pb.h"
#include "server/replication/replica_network.h"
#include "server/replication/replica_sessions.h"
#include "server/replication/replica_store.h"

namespace tributary {

// Serves the in-memory replicas on this server, sends copies of this server's
// state to the next server, and reads replicas from other servers. In an
// all-reduce, serves the workers' state instead. One object serves one attempt.
// Thread-safe. The methods are raw (they take unparsed bytes), so that payloads
// bypass protobuf.
class ReplicaService final
    : public Journal::WithRawCallbackMethod_Replicate<
          Journal::WithRawCallbackMethod_ReadJournal<
              Journal::WithRawCallbackMethod_SaveState<
                  Journal::WithRawCallbackMethod_ReadState<Journal::Service>>>>,
      public ReplicaNetwork {
 public:
  struct Options {
    int shard = 0;
    // Address of the coordinator. Used to reach a server whose address is
    // empty.
    std::string coordinator;
    Security security;
  };
  // `memory` must outlive this object.
  ReplicaService(Options options, ReplicaStore* memory);
  ~ReplicaService() override;

  void Serve(int64_t attempt) override { sessions_.Serve(attempt); }
  void ServeWorkers(int64_t attempt) override {
    sessions_.ServeWorkers(attempt);
  }
  std::unique_ptr<ReplicaStream> Open(
      const std::string& address, const JournalHello& hello,
      std::function<void(const absl::Status&)> lost) override;
  absl::Status Fetch(const std::string& address,
                     const ReadJournalRequest& request,
                     const ReplicaTarget& to) override;

  // Waits until no call uses the replicas. Call it after the gRPC server's
  // shutdown.
  void AwaitIdle() { calls_->AwaitNone(); }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Replicate(
      grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadJournal(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* SaveState(
      grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadState(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;

 private:
  // Serves a call that sends copies, or one that reads them, with the session
  // that `make` of sessions_ returns.
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Keep(
      std::unique_ptr<ReplicaSessions::KeepSession> (ReplicaSessions::*make)(
          ServerStream<JournalAnswer>*));
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Read(
      std::unique_ptr<ReplicaSessions::ReadSession> (ReplicaSessions::*make)(
          ServerStream<JournalMessage>*),
      const grpc::ByteBuffer& request);
  // Returns `address` or, if it is empty, the address of the coordinator.
  const std::string& Reach(const std::string& address) const {
    return address.empty() ? options_.coordinator : address;
  }

  const Options options_;
  ReplicaSessions sessions_;
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_REPLICATION_REPLICA_SERVICE_H_
