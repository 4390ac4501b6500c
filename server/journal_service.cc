#include "server/journal_service.h"

#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "common/buffer_pool.h"
#include "common/failpoint.h"
#include "common/limits.h"
#include "common/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/client_stream.h"
#include "common/transport/server_stream.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace tributary {
namespace {

constexpr char kReplicateMethod[] = "/tributary.Journal/Replicate";
// At a time: one, and another whose end has not been noticed yet.
constexpr int kMostReaders = 2;
// For the state of one server.
constexpr absl::Duration kFetchTimeout = absl::Minutes(10);

int64_t Bytes(int64_t elements) { return elements * int64_t{sizeof(float)}; }

const Buffer& ArrayOf(const Snapshot::Chunk& chunk, int array) {
  return array == 0 ? chunk.values : chunk.slots[array - 1];
}

grpc::ByteBuffer EncodePart(int64_t version, const Snapshot::Chunk& chunk,
                            int array) {
  JournalMessage message;
  message.mutable_part()->set_version(version);
  message.mutable_part()->set_chunk(chunk.number);
  message.mutable_part()->set_array(array);
  const Buffer& values = ArrayOf(chunk, array);
  return EncodeWithPayload(message, values.get(), Bytes(chunk.elements),
                           values);
}

// The stream of the server whose copies are kept here.
class ReplicateStream final
    : public ServerStream<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // `attempt` 0: not known yet.
  ReplicateStream(int shard, int64_t attempt, StateJournal* memory,
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
      return absl::InvalidArgumentError("a message of no known kind");
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
    TRIBUTARY_RETURN_IF_ERROR(memory_->CheckScope(hello.scope()));
    if (attempt_ != hello.attempt()) {
      return absl::AbortedError(absl::StrCat(
          "server ", hello.shard(), " belongs to attempt ", hello.attempt(),
          " of the job, server ", shard_, " to ", attempt_, ": join again"));
    }
    const int servers = hello.scope().servers();
    if (hello.shard() < 0 || hello.shard() >= servers ||
        KeeperOf(hello.shard(), servers) != shard_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "server ", shard_, " keeps no copies for server ", hello.shard()));
    }
    from_ = hello.shard();
    return absl::OkStatus();
  }

  absl::Status OnPart(const JournalPart& part, const ReceivedPayload& payload) {
    TRIBUTARY_ASSIGN_OR_RETURN(const StateJournal::CopyShape shape,
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
      return absl::InvalidArgumentError(
          absl::StrCat("a copy of chunk ", part.chunk(), ", version ",
                       part.version(), ", has ", payload.bytes(),
                       " bytes instead of ", Bytes(shape.elements)));
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
  StateJournal* const memory_;
  // Touched only by the read in flight.
  int from_ = -1;  // A shard; -1: no JournalHello yet.
  std::unique_ptr<BufferPool> buffers_;
  int64_t version_ = 0;  // Of the copy whose arrays are coming in:
  Snapshot::Chunk copy_;

  absl::Mutex kept_mu_;
  int64_t kept_ ABSL_GUARDED_BY(kept_mu_) = 0;
  int64_t told_ ABSL_GUARDED_BY(kept_mu_) = 0;
};

// Writes one shard at one version.
class JournalReader final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // `readers` counts those there are.
  JournalReader(const StateJournal& memory, const grpc::ByteBuffer& request,
                std::shared_ptr<std::atomic<int>> readers,
                std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)), readers_(std::move(readers)) {
    grpc::ByteBuffer bytes = request;
    // Each holds what it reads.
    const absl::Status status =
        ++*readers_ > kMostReaders
            ? absl::ResourceExhaustedError(
                  "others are reading this journal; try again")
            : Prepare(memory, &bytes);
    if (status.ok()) {
      WriteNext();
    } else {
      Finish(ToGrpc(status));
    }
  }

 private:
  absl::Status Prepare(const StateJournal& memory, grpc::ByteBuffer* bytes) {
    ReadJournalRequest request;
    TRIBUTARY_RETURN_IF_ERROR(Decode(bytes, &request));
    TRIBUTARY_RETURN_IF_ERROR(memory.CheckScope(request.scope()));
    TRIBUTARY_ASSIGN_OR_RETURN(snapshot_,
                               memory.Find(request.shard(), request.version()));
    return absl::OkStatus();
  }

  void WriteNext() {
    if (chunk_ == snapshot_.chunks.size()) {
      Finish(grpc::Status::OK);
      return;
    }
    const Snapshot::Chunk& chunk = snapshot_.chunks[chunk_];
    out_ = EncodePart(snapshot_.version, chunk, array_);
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

// The other end of a ReplicateStream.
class ReplicationClient final
    : public ClientStream<grpc::ByteBuffer, grpc::ByteBuffer>,
      public JournalStream {
 public:
  ReplicationClient(const std::string& address, const Security& security,
                    std::function<void(const absl::Status&)> lost)
      : address_(address),
        lost_(std::move(lost)),
        stub_(CreateChannel(address, security)) {}

  void End() override {
    {
      absl::MutexLock lock(&order_mu_);
      ending_ = true;
    }
    Cancel();
    (void)AwaitDone();
  }

  void Begin(const JournalHello& hello) {
    stub_.PrepareBidiStreamingCall(context(), kReplicateMethod,
                                   grpc::StubOptions(), this);
    Start();
    JournalMessage message;
    *message.mutable_hello() = hello;
    ClientStream::Send(Encode(message));
  }

  void Send(int64_t version, const Snapshot::Chunk& copy,
            std::function<void()> kept) override {
    absl::MutexLock lock(&order_mu_);
    if (ending_) return;
    waiting_.push_back(std::move(kept));
    for (int array = 0; array <= static_cast<int>(copy.slots.size()); ++array) {
      ClientStream::Send(EncodePart(version, copy, array));
    }
  }

 private:
  bool OnMessage(grpc::ByteBuffer* bytes) override {
    JournalAnswer answer;
    const absl::Status status = Decode(bytes, &answer);
    if (!status.ok()) {
      Cancel();
      return true;
    }
    std::vector<std::function<void()>> done;
    {
      absl::MutexLock lock(&order_mu_);
      for (; kept_ < answer.kept() && !waiting_.empty(); ++kept_) {
        done.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
    }
    for (const auto& kept : done) kept();
    return true;
  }

  void OnGone(const grpc::Status& status) override {
    {
      absl::MutexLock lock(&order_mu_);
      if (ending_) return;
    }
    lost_(status.ok() ? absl::UnavailableError(
                            absl::StrCat(address_, ": ended the replication"))
                      : FromGrpc(status, address_));
  }

  const std::string address_;
  const std::function<void(const absl::Status&)> lost_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  absl::Mutex order_mu_;
  bool ending_ ABSL_GUARDED_BY(order_mu_) = false;
  int64_t kept_ ABSL_GUARDED_BY(order_mu_) = 0;
  // What is to be called for the copies after those.
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(order_mu_);
};

}  // namespace

JournalService::JournalService(Options options, StateJournal* memory)
    : options_(std::move(options)), memory_(memory) {}

void JournalService::Serve(int64_t attempt) {
  absl::MutexLock lock(&mu_);
  attempt_ = attempt;
}

std::unique_ptr<JournalStream> JournalService::Open(
    const std::string& address, const JournalHello& hello,
    std::function<void(const absl::Status&)> lost) {
  auto client = std::make_unique<ReplicationClient>(
      Reach(address), options_.security, std::move(lost));
  client->Begin(hello);
  return client;
}

absl::Status JournalService::Fetch(const std::string& address,
                                   const ReadJournalRequest& request,
                                   Snapshot* snapshot) {
  const std::string& from = Reach(address);
  const std::unique_ptr<Journal::Stub> stub =
      Journal::NewStub(CreateChannel(from, options_.security));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kFetchTimeout));
  const std::unique_ptr<grpc::ClientReader<JournalMessage>> reader =
      stub->ReadJournal(&context, request);
  JournalMessage message;
  size_t chunk = 0;
  size_t array = 0;
  while (reader->Read(&message)) {
    const JournalPart& part = message.part();
    if (chunk == snapshot->chunks.size() ||
        part.chunk() != snapshot->chunks[chunk].number ||
        part.array() != static_cast<int>(array) ||
        part.version() != request.version() ||
        static_cast<int64_t>(part.payload().size()) !=
            Bytes(snapshot->chunks[chunk].elements)) {
      context.TryCancel();
      return absl::DataLossError(absl::StrCat(
          from, ": array ", part.array(), " of chunk ", part.chunk(),
          " does not come next, or has not its size"));
    }
    const Buffer& to =
        ArrayOf(snapshot->chunks[chunk], static_cast<int>(array));
    part.payload().copy(reinterpret_cast<char*>(to.get()),
                        part.payload().size());
    if (++array > snapshot->chunks[chunk].slots.size()) {
      array = 0;
      ++chunk;
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(FromGrpc(reader->Finish(), from));
  if (chunk < snapshot->chunks.size()) {
    return absl::DataLossError(absl::StrCat(
        from, ": sent ", chunk, " of ", snapshot->chunks.size(), " chunks"));
  }
  snapshot->version = request.version();
  return absl::OkStatus();
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
JournalService::Replicate(grpc::CallbackServerContext*) {
  int64_t attempt = 0;
  {
    absl::MutexLock lock(&mu_);
    attempt = attempt_;
  }
  auto* stream = new ReplicateStream(options_.shard, attempt, memory_, calls_);
  stream->Start(kDefaultLimits.handshake_timeout);
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* JournalService::ReadJournal(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return new JournalReader(*memory_, *request, readers_, calls_);
}

}  // namespace tributary
