// The Rendezvous service: gRPC streams in front of a Coordinator.
// proto/rendezvous.proto defines the protocol.
#ifndef TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_

#include <memory>

#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/transport/live_calls.h"
#include "proto/rendezvous.grpc.pb.h"
#include "server/coordinator/coordinator.h"

namespace tributary {

// Serves a Coordinator over gRPC. Thread-safe. The streaming methods are raw
// (they take unparsed bytes), so that messages are checked before they are
// parsed.
class CoordinatorService final
    : public Rendezvous::WithRawCallbackMethod_Membership<
          Rendezvous::WithRawCallbackMethod_Enlistment<
              Rendezvous::WithCallbackMethod_GetStatus<Rendezvous::Service>>> {
 public:
  // `coordinator` must outlive the gRPC server. A stream without a first
  // message within `silence` is closed.
  explicit CoordinatorService(
      Coordinator* coordinator,
      absl::Duration silence = kDefaultLimits.handshake_timeout);
  ~CoordinatorService() override;

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Membership(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Enlistment(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const StatusRequest* request,
                                      StatusReply* reply) override;

  // Waits until no call uses the coordinator. Call it after the gRPC server's
  // shutdown.
  void AwaitIdle() { calls_->AwaitNone(); }

 private:
  Coordinator* const coordinator_;
  const absl::Duration silence_;
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_
