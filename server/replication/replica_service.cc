#include "server/replication/replica_service.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/counted.h"
#include "common/base/failpoint.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/replica_client.h"
#include "common/transport/server_stream.h"
#include "grpcpp/grpcpp.h"

namespace tributary {
namespace {

// Open reads by servers: one, and another whose end was not noticed yet.
constexpr int kMostReaders = 2;

int64_t Bytes(int64_t elements) { return elements * int64_t{sizeof(float)}; }

// Replicas are open to servers or, in an all-reduce, to workers.
absl::Status NotServed() {
  return absl::UnavailableError(
      "this server does not keep replicas for this kind of process, or not "
      "yet");
}

// A stream of copies from the server whose state is replicated here.
class ReplicateStream final
    : public ServerStream<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `attempt` 0: no attempt is served yet, so the stream is refused.
  ReplicateStream(int shard, int64_t attempt, ReplicaStore* memory,
                  std::shared_ptr<LiveCalls> calls)
      : ServerStream(std::move(calls)),
        shard_(shard),
        attempt_(attempt),
        memory_(memory) {}

 private:
  void OnMessage(grpc::ByteBuffer* bytes) override {
    const absl::Status status = Handle(bytes);
    if (!status.ok()) Close(ToGrpc(status));
  }
  void OnEnd() override { Close(grpc::Status::OK); }
  void OnGone() override {}

  absl::Status Handle(grpc::ByteBuffer* bytes) {
    JournalMessage message;
    ReceivedPayload payload;
    TRIBUTARY_RETURN_IF_ERROR(DecodeInPlace(bytes, &message, &payload));
    if (message.has_hello()) return OnHello(message.hello());
    if (!message.has_part()) {
      return absl::InvalidArgumentError("a message of an unknown kind");
    }
    if (from_ < 0) {
      return absl::FailedPreconditionError(
          "the first message must be JournalHello");
    }
    return OnPart(message.part(), payload);
  }

  absl::Status OnHello(const JournalHello& hello) {
    if (from_ >= 0) {
      return absl::FailedPreconditionError("a second JournalHello");
    }
    if (attempt_ == 0) return NotServed();
    TRIBUTARY_RETURN_IF_ERROR(memory_->CheckScope(hello.scope()));
    if (attempt_ != hello.attempt()) {
      return absl::AbortedError(absl::StrCat(
          "server ", hello.shard(), " belongs to attempt ", hello.attempt(),
          " of the job, server ", shard_, " to ", attempt_, ": join again"));
    }
    const int servers = hello.scope().servers();
    if (hello.shard() < 0 || hello.shard() >= servers ||
        ReplicaHolderOf(hello.shard(), servers) != shard_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server ", shard_, " holds no replica of server ", hello.shard()));
    }
    from_ = hello.shard();
    return absl::OkStatus();
  }

  absl::Status OnPart(const JournalPart& part, const ReceivedPayload& payload) {
    TRIBUTARY_ASSIGN_OR_RETURN(const ReplicaStore::CopyShape shape,
                               memory_->ShapeOf(from_, part.chunk()));
    const int expected = static_cast<int>(copy_.slots.size()) +
                         (copy_.values == nullptr ? 0 : 1);
    if (part.array() != expected ||
        (expected > 0 &&
         (part.chunk() != copy_.number || part.version() != version_))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "array ", part.array(), " of chunk ", part.chunk(), ", version ",
          part.version(), " is not the one that comes next"));
    }
    if (payload.bytes() != Bytes(shape.elements) || part.version() < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a copy of chunk ", part.chunk(), ", version ", part.version(),
          ", has ", Counted(payload.bytes(), "byte"), " instead of ",
          Bytes(shape.elements)));
    }
    if (buffers_ == nullptr) {
      buffers_ = std::make_unique<BufferPool>(shape.most_elements);
    }
    Buffer values = buffers_->Take();
    payload.Copy(0, payload.bytes(), values.get());
    if (expected == 0) {
      copy_.number = part.chunk();
      copy_.elements = shape.elements;
      copy_.values = std::move(values);
      version_ = part.version();
    } else {
      copy_.slots.push_back(std::move(values));
    }
    if (expected + 1 < shape.arrays) return absl::OkStatus();
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("J1"));
    TRIBUTARY_RETURN_IF_ERROR(
        memory_->Add(from_, version_, std::exchange(copy_, Snapshot::Chunk())));
    TRIBUTARY_RETURN_IF_ERROR(Failpoint("J2"));
    {
      absl::MutexLock lock(&kept_mu_);
      ++kept_;
    }
    Wake();
    return absl::OkStatus();
  }

  bool TakeMore(grpc::ByteBuffer* out) override {
    JournalAnswer answer;
    {
      absl::MutexLock lock(&kept_mu_);
      if (kept_ == told_) return false;
      told_ = kept_;
      answer.set_kept(kept_);
    }
    *out = Encode(answer);
    return true;
  }

  const int shard_;
  const int64_t attempt_;
  ReplicaStore* const memory_;
  // Accessed only by the read in flight.
  int from_ = -1;  // The sender's shard; -1: no JournalHello yet.
  std::unique_ptr<BufferPool> buffers_;
  int64_t version_ = 0;  // Version of copy_, which is being received.
  Snapshot::Chunk copy_;

  absl::Mutex kept_mu_;
  int64_t kept_ ABSL_GUARDED_BY(kept_mu_) = 0;
  int64_t told_ ABSL_GUARDED_BY(kept_mu_) = 0;
};

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
    if (memory == nullptr) return NotServed();
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
    out_ = EncodeReplicaPart(snapshot_.version, chunk, array_);
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
  auto* stream = new ReplicateStream(options_.shard, attempt, memory_, calls_);
  stream->Start(kDefaultLimits.handshake_timeout);
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
