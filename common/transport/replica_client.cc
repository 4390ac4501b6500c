#include "common/transport/replica_client.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
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

}  // namespace

std::unique_ptr<ReplicaStream> OpenReplicaStream(
    const std::string& address, const Security& security, ReplicaPeer peer,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost) {
  return StartReplicaStream(
      std::make_unique<GrpcClientStream<JournalAnswer, JournalMessage>>(
          CreateChannel(address, security),
          peer == ReplicaPeer::kServer ? "/tributary.Journal/Replicate"
                                       : "/tributary.Journal/SaveState"),
      address, hello, std::move(lost));
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
