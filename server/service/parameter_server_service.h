// The ParameterServer service: gRPC streams in front of an UpdateEngine.
// proto/parameter_server.proto defines the protocol.
#ifndef TRIBUTARY_SERVER_SERVICE_PARAMETER_SERVER_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_PARAMETER_SERVER_SERVICE_H_

#include <memory>

#include "common/os/logger.h"
#include "common/transport/live_calls.h"
#include "proto/parameter_server.grpc.pb.h"
#include "server/service/weights_sessions.h"

namespace tributary {

// Serves WeightsSessions over gRPC. Thread-safe. The methods are raw (they take
// unparsed bytes), so that payloads bypass protobuf.
class ParameterServerService final
    : public ParameterServer::WithRawCallbackMethod_Exchange<
          ParameterServer::WithRawCallbackMethod_ReadWeights<
              ParameterServer::Service>> {
 public:
  // For `log`, see WeightsSessions.
  ParameterServerService(int shard, Logger* log);
  ~ParameterServerService() override;

  WeightsSessions* sessions() { return &sessions_; }

  // Waits until no call uses the engine. Call it after the gRPC server's
  // shutdown.
  void AwaitIdle() { calls_->AwaitNone(); }

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Exchange(
      grpc::CallbackServerContext* context) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadWeights(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;

 private:
  WeightsSessions sessions_;
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_PARAMETER_SERVER_SERVICE_H_
