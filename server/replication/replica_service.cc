#include "server/replication/replica_service.h"

#include <utility>

#include "common/base/limits.h"
#include "common/transport/grpc_server_stream.h"
#include "common/transport/replica_client.h"

namespace tributary {

ReplicaService::ReplicaService(Options options, ReplicaStore* memory)
    : options_(std::move(options)), sessions_(options_.shard, memory) {}

ReplicaService::~ReplicaService() = default;

std::unique_ptr<ReplicaStream> ReplicaService::Open(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  return OpenReplicaStream(Reach(address), options_.security,
                           ReplicaPeer::kServer, hello, std::move(lost));
}

absl::Status ReplicaService::Fetch(const std::string& address,
                                   const ReadJournalRequest& request,
                                   const ReplicaTarget& to) {
  return ReadReplica(Reach(address), options_.security, ReplicaPeer::kServer,
                     request, to);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::Keep(std::unique_ptr<ReplicaSessions::KeepSession> (
    ReplicaSessions::*make)(ServerStream<JournalAnswer>*)) {
  auto* stream = new GrpcServerStream<JournalMessage, JournalAnswer>(calls_);
  stream->Start((sessions_.*make)(stream), kDefaultLimits.handshake_timeout);
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::Read(
    std::unique_ptr<ReplicaSessions::ReadSession> (ReplicaSessions::*make)(
        ServerStream<JournalMessage>*),
    const grpc::ByteBuffer& request) {
  auto* stream =
      new GrpcResponseStream<ReadJournalRequest, JournalMessage>(calls_);
  stream->Start((sessions_.*make)(stream), request);
  return stream;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::Replicate(grpc::CallbackServerContext*) {
  return Keep(&ReplicaSessions::Replicate);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::ReadJournal(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return Read(&ReplicaSessions::ReadJournal, *request);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::SaveState(grpc::CallbackServerContext*) {
  return Keep(&ReplicaSessions::SaveState);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::ReadState(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return Read(&ReplicaSessions::ReadState, *request);
}

}  // namespace tributary
