// Connects a worker of a pipeline to the workers of other stages.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_CONNECTION_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/pipeline.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/stages/network/stage_connector.h"
#include "worker/exchange/stages/pipeline_peers.h"
#include "worker/exchange/stages/stream_stage_link.h"
#include "worker/exchange/stages/transfer_plan.h"

namespace tributary {

struct StageConnection {
  // Must outlive the link.
  const TransferPlan* plan = nullptr;
  // What the sender says of itself. `memory` is absent.
  StageHello hello;
  // The addresses of the receiver's StageHost.
  std::string address;
  LocalAddress local;
  // The job's exchange.transport.
  ExchangeSpec::Transport transport = ExchangeSpec::AUTO;
  // Reaches the receiver at the address that the transport selects.
  StageConnector connect;
  // How long the receiver may take to answer. It may learn of the assignment
  // later than the sender.
  absl::Duration timeout = absl::Seconds(30);
};

// Opens a link: to a receiver on this host through shared memory or a
// Unix socket, otherwise over the network. Blocks, and calls `stop` repeatedly
// on the calling thread. Tries again while the receiver answers Unavailable.
//
// Returns Cancelled when `stop` returns true; FailedPrecondition if the
// transport is impossible, or the credentials do not match; Unavailable if the
// receiver cannot be reached in time; and the error with which it has refused
// the sender.
absl::StatusOr<std::unique_ptr<StreamStageLink>> OpenStageLink(
    const StageConnection& connection, const std::function<bool()>& stop);

// Returns a function that opens links with OpenStageLink. `plan` must outlive
// the links.
PipelinePeers::Opener MakeStageOpener(const TransferPlan* plan,
                                      ExchangeSpec::Transport transport,
                                      StageConnector connect);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_NETWORK_STAGE_CONNECTION_H_
