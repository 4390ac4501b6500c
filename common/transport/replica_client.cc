#include "common/transport/replica_client.h"

#include <deque>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/client_stream.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/journal.grpc.pb.h"

namespace tributary {
namespace {

// Timeout for reading the state of one server.
constexpr absl::Duration kFetchTimeout = absl::Minutes(10);

int64_t Bytes(int64_t elements) { return elements * int64_t{sizeof(float)}; }

const Buffer& ArrayOf(const Snapshot::Chunk& chunk, int array) {
  return array == 0 ? chunk.values : chunk.slots[array - 1];
}

class ReplicationClient final
    : public ClientStream<grpc::ByteBuffer, grpc::ByteBuffer>,
      public ReplicaStream {
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

  void Begin(ReplicaPeer peer, const JournalHello& hello) {
    stub_.PrepareBidiStreamingCall(context(),
                                   peer == ReplicaPeer::kServer
                                       ? "/tributary.Journal/Replicate"
                                       : "/tributary.Journal/SaveState",
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
      ClientStream::Send(EncodeReplicaPart(version, copy, array));
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
  // Callbacks of the copies that were sent but not acknowledged.
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(order_mu_);
};

}  // namespace

grpc::ByteBuffer EncodeReplicaPart(int64_t version,
                                   const Snapshot::Chunk& chunk, int array) {
  JournalMessage message;
  message.mutable_part()->set_version(version);
  message.mutable_part()->set_chunk(chunk.number);
  message.mutable_part()->set_array(array);
  const Buffer& values = ArrayOf(chunk, array);
  return EncodeWithPayload(message, values.get(), Bytes(chunk.elements),
                           values);
}

std::unique_ptr<ReplicaStream> OpenReplicaStream(
    const std::string& address, const Security& security, ReplicaPeer peer,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost) {
  auto client =
      std::make_unique<ReplicationClient>(address, security, std::move(lost));
  client->Begin(peer, hello);
  return client;
}

absl::Status ReadReplica(const std::string& address, const Security& security,
                         ReplicaPeer peer, const ReadJournalRequest& request,
                         Snapshot* snapshot) {
  const std::unique_ptr<Journal::Stub> stub =
      Journal::NewStub(CreateChannel(address, security));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kFetchTimeout));
  const std::unique_ptr<grpc::ClientReader<JournalMessage>> reader =
      peer == ReplicaPeer::kServer ? stub->ReadJournal(&context, request)
                                   : stub->ReadState(&context, request);
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
      return absl::DataLossError(
          absl::StrCat(address, ": array ", part.array(), " of chunk ",
                       part.chunk(), " is out of order or has the wrong size"));
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
  TRIBUTARY_RETURN_IF_ERROR(FromGrpc(reader->Finish(), address));
  if (chunk < snapshot->chunks.size()) {
    return absl::DataLossError(absl::StrCat(
        address, ": sent ", chunk, " of ", snapshot->chunks.size(), " chunks"));
  }
  snapshot->version = request.version();
  return absl::OkStatus();
}

}  // namespace tributary
