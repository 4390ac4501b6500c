// The coordinator's end of the streams to workers and servers.
// proto/rendezvous.proto defines the protocol.
#ifndef TRIBUTARY_SERVER_SERVICE_MEMBERSHIP_SESSION_H_
#define TRIBUTARY_SERVER_SERVICE_MEMBERSHIP_SESSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/stream/message_stream.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/coordinator.h"

namespace tributary {

// The session of one worker. Adds the worker to the coordinator when the worker
// joins, passes messages between the two, and removes the worker when the
// stream ends. If the coordinator returns an error for a report, closes the
// stream with that error.
class MembershipSession final
    : public ServerSession<WorkerReport, CoordinatorOrder>,
      public WorkerLink {
 public:
  // Both arguments must outlive this object.
  MembershipSession(Coordinator* coordinator,
                    ServerStream<CoordinatorOrder>* stream)
      : coordinator_(coordinator), stream_(stream) {}

  void OnMessage(const WorkerReport& report, ReceivedPayload) override;
  void OnEnd() override;
  void OnGone() override;

  void Send(const CoordinatorOrder& order) override { stream_->Send(order); }
  void Close(const absl::Status& status) override { stream_->Close(status); }

 private:
  absl::Status Handle(const WorkerReport& report);

  Coordinator* const coordinator_;
  ServerStream<CoordinatorOrder>* const stream_;
  int64_t incarnation_ = 0;
};

// The session of one server. Adds the server to the coordinator when the server
// enlists, passes messages between the two, and tells the coordinator when the
// stream ends. If the coordinator returns an error for a report, closes the
// stream with that error.
class EnlistmentSession final : public ServerSession<ServerReport, ServerOrder>,
                                public ServerLink {
 public:
  // Both arguments must outlive this object.
  EnlistmentSession(Coordinator* coordinator, ServerStream<ServerOrder>* stream)
      : coordinator_(coordinator), stream_(stream) {}

  void OnMessage(const ServerReport& report, ReceivedPayload) override;
  void OnEnd() override;
  void OnGone() override;

  void Send(const ServerOrder& order) override { stream_->Send(order); }
  void Close(const absl::Status& status) override { stream_->Close(status); }

 private:
  absl::Status Handle(const ServerReport& report);

  Coordinator* const coordinator_;
  ServerStream<ServerOrder>* const stream_;
  // The server's shard. -1 before the server has enlisted, and after OnGone.
  int shard_ = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_MEMBERSHIP_SESSION_H_
