#include "worker/exchange/stages/network/stage_connector.h"

#include "common/base/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"

namespace tributary {

StageConnector GrpcStageConnector(const Security& security) {
  return [security](
             const std::string& address, absl::Time deadline,
             const std::function<bool()>& stop) -> absl::StatusOr<StageCaller> {
    const std::shared_ptr<grpc::Channel> channel =
        CreateChannel(address, security, Role::kWorker);
    TRIBUTARY_RETURN_IF_ERROR(AwaitConnected(channel.get(), address, security,
                                             deadline, stop, Role::kWorker));
    return [channel] {
      return std::make_unique<GrpcClientStream<StageReply, StageMessage>>(
          channel, "/tributary.StageExchange/Transfer");
    };
  };
}

}  // namespace tributary
