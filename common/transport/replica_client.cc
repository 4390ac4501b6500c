#include "common/transport/replica_client.h"

#include <memory>
#include <utility>

#include "absl/time/time.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"

namespace tributary {
namespace {

// Timeout for reading the state of one server.
constexpr absl::Duration kFetchTimeout = absl::Minutes(10);

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
                         const ReplicaTarget& to) {
  return ReceiveReplica(
      std::make_unique<GrpcClientStream<JournalMessage, ReadJournalRequest>>(
          CreateChannel(address, security),
          peer == ReplicaPeer::kServer ? "/tributary.Journal/ReadJournal"
                                       : "/tributary.Journal/ReadState",
          kFetchTimeout),
      address, request, to);
}

}  // namespace tributary
