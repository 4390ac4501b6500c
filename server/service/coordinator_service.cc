#include "server/service/coordinator_service.h"

#include <memory>
#include <utility>

#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/server_stream.h"

namespace tributary {
namespace {

using RawStream = ServerStream<grpc::ByteBuffer, grpc::ByteBuffer>;

class WorkerStream final : public RawStream, public WorkerLink {
 public:
  WorkerStream(Coordinator* coordinator, std::shared_ptr<LiveCalls> calls)
      : ServerStream(std::move(calls)), coordinator_(coordinator) {}

  void Send(const CoordinatorOrder& order) override {
    RawStream::Send(Encode(order));
  }
  void Close(const absl::Status& status) override {
    ServerStream::Close(ToGrpc(status));
  }

 private:
  void OnMessage(grpc::ByteBuffer* bytes) override {
    WorkerReport report;
    absl::Status status = Decode(bytes, &report);
    if (status.ok()) status = Handle(report);
    if (!status.ok()) Close(status);
  }

  absl::Status Handle(const WorkerReport& report) {
    if (incarnation_ != 0) {
      return coordinator_->OnWorkerReport(incarnation_, report);
    }
    if (!report.has_join()) {
      return absl::FailedPreconditionError("the first report must be Join");
    }
    absl::StatusOr<int64_t> incarnation =
        coordinator_->AddWorker(report.join(), this);
    if (!incarnation.ok()) return incarnation.status();
    incarnation_ = *incarnation;
    return absl::OkStatus();
  }

  void OnEnd() override {
    if (incarnation_ != 0) coordinator_->WorkerGone(incarnation_);
    ServerStream::Close(grpc::Status::OK);
  }

  void OnGone() override {
    if (incarnation_ != 0) coordinator_->WorkerGone(incarnation_);
  }

  Coordinator* const coordinator_;
  // Accessed only by the read in flight and at the stream's end.
  int64_t incarnation_ = 0;
};

class EnlistmentStream final : public RawStream, public ServerLink {
 public:
  EnlistmentStream(Coordinator* coordinator, std::shared_ptr<LiveCalls> calls)
      : ServerStream(std::move(calls)), coordinator_(coordinator) {}

  void Send(const ServerOrder& order) override {
    RawStream::Send(Encode(order));
  }
  void Close(const absl::Status& status) override {
    ServerStream::Close(ToGrpc(status));
  }

 private:
  void OnMessage(grpc::ByteBuffer* bytes) override {
    ServerReport report;
    absl::Status status = Decode(bytes, &report);
    if (status.ok()) status = Handle(report);
    if (!status.ok()) Close(status);
  }

  absl::Status Handle(const ServerReport& report) {
    if (shard_ >= 0) return coordinator_->OnServerReport(shard_, report);
    if (!report.has_enlist()) {
      return absl::FailedPreconditionError("the first report must be Enlist");
    }
    const absl::Status status = coordinator_->AddServer(report.enlist(), this);
    if (status.ok()) shard_ = report.enlist().shard();
    return status;
  }

  void OnEnd() override {
    if (shard_ >= 0) coordinator_->ServerGone(shard_);
    ServerStream::Close(grpc::Status::OK);
  }

  void OnGone() override {
    if (shard_ >= 0) coordinator_->ServerGone(shard_);
  }

  Coordinator* const coordinator_;
  // Accessed only by the read in flight and at the stream's end.
  int shard_ = -1;
};

}  // namespace

CoordinatorService::CoordinatorService(Coordinator* coordinator,
                                       absl::Duration silence)
    : coordinator_(coordinator), silence_(silence) {}

CoordinatorService::~CoordinatorService() = default;

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
CoordinatorService::Membership(grpc::CallbackServerContext*) {
  auto* stream = new WorkerStream(coordinator_, calls_);
  stream->Start(silence_);
  return stream;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
CoordinatorService::Enlistment(grpc::CallbackServerContext*) {
  auto* stream = new EnlistmentStream(coordinator_, calls_);
  stream->Start(silence_);
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
