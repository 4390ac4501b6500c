// Rendezvous over gRPC: streams in front of a Coordinator. See
// proto/rendezvous.proto for the protocol.
#ifndef TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_

#include <memory>

#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/transport/live_calls.h"
#include "proto/rendezvous.grpc.pb.h"
#include "server/coordinator/coordinator.h"

namespace tributary {

// Thread-safe.
// The streams' methods are raw: what a peer sends is looked at before it is
// parsed.
class CoordinatorService final
    : public Rendezvous::WithRawCallbackMethod_Membership<
          Rendezvous::WithRawCallbackMethod_Enlistment<
              Rendezvous::WithCallbackMethod_GetStatus<Rendezvous::Service>>> {
 public:
  // `coordinator` must outlive the gRPC server. Who opens a stream and says
  // nothing for `silence` is sent away.
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

  // After the gRPC server's shutdown: waits until no call uses the coordinator.
  void AwaitIdle() { calls_->AwaitNone(); }

 private:
  Coordinator* const coordinator_;
  const absl::Duration silence_;
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_
