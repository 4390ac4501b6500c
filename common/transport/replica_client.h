// Sends and reads in-memory replicas, which are copies of the state of a
// process in the memory of a server; see proto/journal.proto, which calls them
// journals.
#ifndef TRIBUTARY_COMMON_TRANSPORT_REPLICA_CLIENT_H_
#define TRIBUTARY_COMMON_TRANSPORT_REPLICA_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/stream/replica_reader.h"
#include "common/stream/replica_stream.h"
#include "common/transport/security.h"
#include "proto/journal.pb.h"

namespace tributary {

// The role of the caller, which determines the methods that it may call.
enum class ReplicaPeer { kServer, kWorker };

// Opens a stream on which the caller sends copies of its state to the server at
// `address`, which keeps them as an in-memory replica. Returns immediately.
// Calls `lost` at most once, on any thread, if the stream breaks.
std::unique_ptr<ReplicaStream> OpenReplicaStream(
    const std::string& address, const Security& security, ReplicaPeer peer,
    const JournalHello& hello, std::function<void(const absl::Status&)> lost);

// Reads the in-memory replica that `request` describes from the server at
// `address`. Blocks for at most ten minutes. Returns the errors of
// ReceiveReplica, such as Unavailable, or DeadlineExceeded after ten minutes.
absl::Status ReadReplica(const std::string& address, const Security& security,
                         ReplicaPeer peer, const ReadJournalRequest& request,
                         const ReplicaTarget& to);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_REPLICA_CLIENT_H_
