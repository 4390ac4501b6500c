#include "server/replication/replica_service.h"

#include <utility>

#include "common/transport/grpc_server_stream.h"
#include "common/transport/replica_client.h"
#include "server/replication/replica_session.h"

namespace tributary {

ReplicaService::ReplicaService(Options options, ReplicaStore* memory)
    : options_(std::move(options)), memory_(memory) {}

ReplicaService::~ReplicaService() = default;

void ReplicaService::Serve(int64_t attempt) {
  absl::MutexLock lock(&mu_);
  attempt_ = attempt;
}

void ReplicaService::ServeWorkers(int64_t attempt) {
  absl::MutexLock lock(&mu_);
  workers_attempt_ = attempt;
}

std::unique_ptr<ReplicaStream> ReplicaService::Open(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  return OpenReplicaStream(Reach(address), options_.security,
                           ReplicaPeer::kServer, hello, std::move(lost));
}

absl::Status ReplicaService::Fetch(const std::string& address,
                                   const ReadJournalRequest& request,
                                   Snapshot* snapshot) {
  return ReadReplica(Reach(address), options_.security, ReplicaPeer::kServer,
                     request, snapshot);
}

int64_t ReplicaService::attempt() const {
  absl::MutexLock lock(&mu_);
  return attempt_;
}

int64_t ReplicaService::workers_attempt() const {
  absl::MutexLock lock(&mu_);
  return workers_attempt_;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::Keep(int64_t attempt) {
  auto* stream = new GrpcServerStream<JournalMessage, JournalAnswer>(calls_);
  stream->Start(std::make_unique<ReplicaSession>(options_.shard, attempt,
                                                 memory_, stream),
                kDefaultLimits.handshake_timeout);
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::Read(
    const ReplicaStore* memory, std::shared_ptr<ReplicaReads> reads,
    const grpc::ByteBuffer& request) {
  auto* stream =
      new GrpcResponseStream<ReadJournalRequest, JournalMessage>(calls_);
  stream->Start(
      std::make_unique<ReplicaReadSession>(memory, std::move(reads), stream),
      request);
  return stream;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::Replicate(grpc::CallbackServerContext*) {
  return Keep(attempt());
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::ReadJournal(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return Read(memory_, reads_, *request);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::SaveState(grpc::CallbackServerContext*) {
  return Keep(workers_attempt());
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::ReadState(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return Read(workers_attempt() == 0 ? nullptr : memory_, worker_reads_,
              *request);
}

}  // namespace tributary
