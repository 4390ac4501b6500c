// A server's stream to a coordinator in a different process.
#ifndef TRIBUTARY_SERVER_SERVICE_ENLISTMENT_H_
#define TRIBUTARY_SERVER_SERVICE_ENLISTMENT_H_

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/stream/message_stream.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

using EnlistmentStream = ClientStream<ServerOrder, ServerReport>;

// A server's connection to the coordinator: passes the coordinator's orders to
// a handler and sends the server's reports. Keep this object until AwaitDone
// has returned. Thread-safe.
class Enlistment final : private ClientSession<ServerOrder, ServerReport> {
 public:
  // `handle` receives every order, and must not block. If it returns an error,
  // the stream is cancelled.
  explicit Enlistment(std::function<absl::Status(const ServerOrder&)> handle)
      : handle_(std::move(handle)) {}

  // Starts the stream and enlists. Call it once, before the other methods.
  void Begin(std::unique_ptr<EnlistmentStream> stream, const Enlist& enlist);

  void Send(const ServerReport& report) { stream_->Send(report); }
  // Tells the coordinator that no more reports follow.
  void HalfClose() { stream_->HalfClose(); }
  // Blocks until the stream has ended and `handle` is not running. Returns the
  // status of the stream.
  absl::Status AwaitDone() { return stream_->AwaitDone(); }

  // Returns true if the coordinator has sent Finish: the job has ended, and
  // this server is no longer needed.
  bool finished() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns true if the coordinator has sent Finish because the job was stopped
  // before its end.
  bool stopped() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool OnMessage(const ServerOrder& order, ReceivedPayload) override;
  void OnGone(const absl::Status&) override {}

  const std::function<absl::Status(const ServerOrder&)> handle_;
  std::unique_ptr<EnlistmentStream> stream_;
  mutable absl::Mutex mu_;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_SERVICE_ENLISTMENT_H_
