#include "server/replication/replica_service.h"

#include <atomic>
#include <utility>

#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/grpc_server_stream.h"
#include "common/transport/replica_client.h"
#include "grpcpp/grpcpp.h"
#include "server/replication/replica_session.h"

namespace tributary {
namespace {

// Largest number of open reads by servers: one read, and an earlier one whose
// end was not noticed yet.
constexpr int kMostReaders = 2;

// Sends one shard at one version.
class ReplicaReader final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // `readers` counts the open reads, of which `most` are allowed. A null
  // `memory` refuses the call.
  ReplicaReader(const ReplicaStore* memory, const grpc::ByteBuffer& request,
                std::shared_ptr<std::atomic<int>> readers, int most,
                std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)), readers_(std::move(readers)) {
    grpc::ByteBuffer bytes = request;
    // Each open read holds a snapshot in memory.
    const absl::Status status =
        ++*readers_ > most
            ? absl::ResourceExhaustedError(
                  "too many processes are reading these replicas; try again")
            : Prepare(memory, &bytes);
    if (status.ok()) {
      WriteNext();
    } else {
      Finish(ToGrpc(status));
    }
  }

 private:
  absl::Status Prepare(const ReplicaStore* memory, grpc::ByteBuffer* bytes) {
    if (memory == nullptr) return ReplicasNotServed();
    ReadJournalRequest request;
    TRIBUTARY_RETURN_IF_ERROR(Decode(bytes, &request));
    TRIBUTARY_RETURN_IF_ERROR(memory->CheckScope(request.scope()));
    TRIBUTARY_ASSIGN_OR_RETURN(
        snapshot_, memory->Find(request.shard(), request.version()));
    return absl::OkStatus();
  }

  void WriteNext() {
    if (chunk_ == snapshot_.chunks.size()) {
      Finish(grpc::Status::OK);
      return;
    }
    const Snapshot::Chunk& chunk = snapshot_.chunks[chunk_];
    ReplicaPart part(snapshot_.version, chunk, array_);
    out_ = Encode(part.message, std::move(part.payload));
    if (++array_ > static_cast<int>(chunk.slots.size())) {
      array_ = 0;
      ++chunk_;
    }
    StartWrite(&out_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      WriteNext();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override {
    --*readers_;
    delete this;
  }

  const LiveCalls::Token token_;
  const std::shared_ptr<std::atomic<int>> readers_;
  Snapshot snapshot_;
  size_t chunk_ = 0;
  int array_ = 0;
  grpc::ByteBuffer out_;
};

}  // namespace

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

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::Replicate(grpc::CallbackServerContext*) {
  return Keep(attempt());
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::ReadJournal(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return new ReplicaReader(memory_, *request, readers_, kMostReaders, calls_);
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ReplicaService::SaveState(grpc::CallbackServerContext*) {
  return Keep(workers_attempt());
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ReplicaService::ReadState(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return new ReplicaReader(workers_attempt() == 0 ? nullptr : memory_, *request,
                           worker_readers_, kDefaultLimits.workers, calls_);
}

}  // namespace tributary
