#include "server/service/parameter_server_service.h"

#include "common/base/limits.h"
#include "common/transport/grpc_server_stream.h"

namespace tributary {

ParameterServerService::ParameterServerService(int shard, Logger* log)
    : sessions_(shard, log) {}

ParameterServerService::~ParameterServerService() = default;

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ParameterServerService::Exchange(grpc::CallbackServerContext*) {
  auto* stream = new GrpcServerStream<WorkerMessage, ServerMessage>(calls_);
  stream->Start(sessions_.Exchange(stream), kDefaultLimits.handshake_timeout);
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ParameterServerService::ReadWeights(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  auto* stream =
      new GrpcResponseStream<ReadWeightsRequest, ServerMessage>(calls_);
  stream->Start(sessions_.ReadWeights(stream), *request);
  return stream;
}

}  // namespace tributary
