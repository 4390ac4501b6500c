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

// What the sessions of workers and of servers have in common. If the
// coordinator returns an error for a report, closes the stream with that error.
template <typename Report, typename Order, typename Link>
class CoordinatorSession : public ServerSession<Report, Order>, public Link {
 public:
  void OnMessage(const Report& report, ReceivedPayload) final {
    const absl::Status status = Handle(report);
    if (!status.ok()) Close(status);
  }
  void OnEnd() final {
    this->OnGone();
    Close(absl::OkStatus());
  }

  void Send(const Order& order) final { stream_->Send(order); }
  void Close(const absl::Status& status) final { stream_->Close(status); }

 protected:
  // Both arguments must outlive this object.
  CoordinatorSession(Coordinator* coordinator, ServerStream<Order>* stream)
      : coordinator_(coordinator), stream_(stream) {}

  virtual absl::Status Handle(const Report& report) = 0;

  Coordinator* const coordinator_;

 private:
  ServerStream<Order>* const stream_;
};

// The session of one worker. Adds the worker to the coordinator when the worker
// joins, passes messages between the two, and removes the worker when the
// stream ends.
class MembershipSession final
    : public CoordinatorSession<WorkerReport, CoordinatorOrder, WorkerLink> {
 public:
  MembershipSession(Coordinator* coordinator,
                    ServerStream<CoordinatorOrder>* stream)
      : CoordinatorSession(coordinator, stream) {}

  void OnGone() override;

 private:
  absl::Status Handle(const WorkerReport& report) override;

  int64_t incarnation_ = 0;
};

// The session of one server. Adds the server to the coordinator when the server
// enlists, passes messages between the two, and tells the coordinator when the
// stream ends.
class EnlistmentSession final
    : public CoordinatorSession<ServerReport, ServerOrder, ServerLink> {
 public:
  EnlistmentSession(Coordinator* coordinator, ServerStream<ServerOrder>* stream)
      : CoordinatorSession(coordinator, stream) {}

  void OnGone() override;

 private:
  absl::Status Handle(const ServerReport& report) override;

  // The server's shard. -1 before the server has enlisted, and after OnGone.
  int shard_ = -1;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_MEMBERSHIP_SESSION_H_
