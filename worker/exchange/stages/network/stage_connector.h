// Opens the calls that carry transfers to other workers.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_CONNECTOR_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_CONNECTOR_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/security.h"
#include "worker/exchange/stages/stream_stage_link.h"

namespace tributary {

// Opens a call of StageExchange.Transfer to the worker that a StageConnector
// has connected to. The caller starts the stream. May be called several times.
using StageCaller = std::function<std::unique_ptr<StageStream>()>;

// Connects to the worker that listens at `address`. Blocks until `deadline`, a
// time of MonotonicNow, and calls `stop` repeatedly on the calling thread.
// Returns FailedPrecondition if the credentials do not match, and another error
// if the worker cannot be reached or `stop` has returned true.
using StageConnector = std::function<absl::StatusOr<StageCaller>(
    const std::string& address, absl::Time deadline,
    const std::function<bool()>& stop)>;

// Returns a function that connects over gRPC with these credentials.
StageConnector GrpcStageConnector(const Security& security);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_CONNECTOR_H_
