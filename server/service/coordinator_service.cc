#include "server/service/coordinator_service.h"

#include <memory>
#include <string>
#include <utility>

#include "common/transport/grpc_server_stream.h"
#include "server/service/membership_session.h"

namespace tributary {

CoordinatorService::CoordinatorService(Coordinator* coordinator,
                                       RunRecords* records,
                                       absl::Duration silence)
    : coordinator_(coordinator), records_(records), silence_(silence) {}

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
  records_->FillStatus(reply);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* CoordinatorService::GetRecords(
    grpc::CallbackServerContext* context, const RecordsRequest* request,
    RecordsReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  // gRPC keeps the reactor and the reply until Finish was called, and its
  // server until then.
  records_->Get(*request,
                [reactor, reply](absl::StatusOr<RecordsReply> records) {
                  if (records.ok()) *reply = *std::move(records);
                  reactor->Finish(ToGrpc(records.status()));
                });
  return reactor;
}

grpc::ServerUnaryReactor* CoordinatorService::ReportEvent(
    grpc::CallbackServerContext* context, const EventReport* report,
    EventReceipt*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(
      ToGrpc(records_->Report(*report, coordinator_->GetStatus().step())));
  return reactor;
}

}  // namespace tributary
