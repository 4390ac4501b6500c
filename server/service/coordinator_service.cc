#include "server/service/coordinator_service.h"

#include <memory>

#include "common/transport/grpc_server_stream.h"
#include "server/service/coordinator_sessions.h"

namespace tributary {
CoordinatorService::CoordinatorService(Coordinator* coordinator,
                                       absl::Duration silence)
    : coordinator_(coordinator), silence_(silence) {}

CoordinatorService::~CoordinatorService() = default;

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
CoordinatorService::Membership(grpc::CallbackServerContext*) {
  auto* stream = new GrpcServerStream<WorkerReport, CoordinatorOrder>(calls_);
  stream->Start(std::make_unique<MembershipSession>(coordinator_, stream),
                silence_);
  return stream;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
CoordinatorService::Enlistment(grpc::CallbackServerContext*) {
  auto* stream = new GrpcServerStream<ServerReport, ServerOrder>(calls_);
  stream->Start(std::make_unique<EnlistmentSession>(coordinator_, stream),
                silence_);
  return stream;
}

grpc::ServerUnaryReactor* CoordinatorService::GetStatus(
    grpc::CallbackServerContext* context, const StatusRequest*,
    StatusReply* reply) {
  *reply = coordinator_->GetStatus();
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace tributary
