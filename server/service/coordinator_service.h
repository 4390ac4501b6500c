// The Rendezvous service: gRPC calls in front of a Coordinator and of the
// RunRecords. proto/rendezvous.proto defines the protocol.
#ifndef TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_
#define TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_

#include <memory>

#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/transport/live_calls.h"
#include "proto/rendezvous.grpc.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/records/run_records.h"

namespace tributary {

// Serves a Coordinator and RunRecords over gRPC. Thread-safe. The streaming
// methods are raw (they take unparsed bytes), so that messages are checked
// before they are parsed.
class CoordinatorService final
    : public Rendezvous::WithRawCallbackMethod_Membership<
          Rendezvous::WithRawCallbackMethod_Enlistment<
              Rendezvous::WithCallbackMethod_GetStatus<
                  Rendezvous::WithCallbackMethod_GetRecords<
                      Rendezvous::WithCallbackMethod_ReportEvent<
                          Rendezvous::Service>>>>> {
 public:
  // `coordinator` and `records` must outlive the gRPC server. The service
  // closes a stream if its first message does not arrive within `silence`.
  CoordinatorService(Coordinator* coordinator, RunRecords* records,
                     absl::Duration silence = kDefaultLimits.handshake_timeout);
  ~CoordinatorService() override;

  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Membership(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Enlistment(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const StatusRequest* request,
                                      StatusReply* reply) override;
  grpc::ServerUnaryReactor* GetRecords(grpc::CallbackServerContext* context,
                                       const RecordsRequest* request,
                                       RecordsReply* reply) override;
  grpc::ServerUnaryReactor* ReportEvent(grpc::CallbackServerContext* context,
                                        const EventReport* report,
                                        EventReceipt* receipt) override;

  // Waits until no call uses the coordinator. Call it after the gRPC server's
  // shutdown.
  void AwaitIdle() { calls_->AwaitNone(); }

 private:
  Coordinator* const coordinator_;
  RunRecords* const records_;
  const absl::Duration silence_;
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_COORDINATOR_SERVICE_H_
