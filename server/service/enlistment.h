// A server's stream to a coordinator in another process.
#ifndef TRIBUTARY_SERVER_SERVICE_ENLISTMENT_H_
#define TRIBUTARY_SERVER_SERVICE_ENLISTMENT_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/client_stream.h"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {

// Passes the coordinator's orders to a handler and sends reports back. Keep
// this object until AwaitDone has returned. Thread-safe.
class Enlistment final : public ClientStream<ServerOrder, ServerReport> {
 public:
  // `handle` receives every order, on a gRPC thread. If it returns an error,
  // the stream is cancelled.
  explicit Enlistment(std::function<absl::Status(const ServerOrder&)> handle)
      : handle_(std::move(handle)) {}

  // Connects and enlists. `stub` must outlive this object.
  void Begin(Rendezvous::Stub* stub, const Enlist& enlist);

  // True if the coordinator has sent Finish.
  bool finished() const ABSL_LOCKS_EXCLUDED(mu_);
  // True if the coordinator has sent Finish because the job was stopped before
  // its end.
  bool stopped() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool OnMessage(ServerOrder* order) override;
  void OnGone(const grpc::Status&) override {}

  const std::function<absl::Status(const ServerOrder&)> handle_;
  mutable absl::Mutex mu_;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_ENLISTMENT_H_
