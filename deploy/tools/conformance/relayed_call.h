// A call of a worker that a WireTap relays to a server.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RELAYED_CALL_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RELAYED_CALL_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/stream/message_stream.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// Controls a call that a WireTap (a relay for tests) passes on between a worker
// and a server, independently of the call's message types. Thread-safe.
class Call {
 public:
  virtual ~Call() = default;
  // Ends the call for the worker with `status`, and cancels it for the server.
  virtual void Break(const absl::Status& status) = 0;
  // If CallObserver::OnServer has held back a message, sends this message to
  // the worker.
  virtual void Release() = 0;
  // Blocks until the call to the server has ended. Must be called after the
  // worker's call has ended.
  virtual void AwaitDone() = 0;
};

// Observes the messages and the end of a relayed call, and may hold back
// messages of the server.
template <typename FromWorker, typename FromServer>
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Called with each message of the worker, before it is relayed. Returns false
  // to drop the message.
  virtual bool OnWorker(const void* call, const FromWorker& message) = 0;
  // Called with each message of the server, before it is relayed. May change
  // the message. Returns false to hold the message back until Call::Release,
  // which calls OnServer again and ignores its result.
  virtual bool OnServer(FromServer* message) = 0;
  // Called when the server has ended the call with `status`. Not called after
  // Call::Break.
  virtual void OnEnd(const void* call, const absl::Status& status) = 0;
};

// Returns true for messages that have a payload also if it is empty.
template <typename Message>
bool AlwaysHasPayload(const Message& /*message*/) {
  return false;
}
inline bool AlwaysHasPayload(const WorkerMessage& message) {
  return message.has_rows_request() || message.has_row_contribution();
}
inline bool AlwaysHasPayload(const ServerMessage& message) {
  return message.has_rows();
}

// Relays the messages of a call between a worker and a server in both
// directions. A ServerStream receives the worker's messages. It owns a Front,
// which passes them to this object. Thread-safe.
template <typename FromWorker, typename FromServer>
class RelayedCall final : public Call,
                          public ClientSession<FromServer, FromWorker> {
 public:
  // Receives the worker's messages and the end of the worker's call, and passes
  // them to the RelayedCall.
  class Front final : public ServerSession<FromWorker, FromServer> {
   public:
    explicit Front(RelayedCall* call) : call_(call) {}
    void OnMessage(const FromWorker& message,
                   ReceivedPayload payload) override {
      call_->OnWorker(message, payload);
    }
    void OnEnd() override { call_->OnWorkerEnd(); }
    void OnGone() override { call_->OnWorkerGone(); }

   private:
    RelayedCall* const call_;
  };

  // Prepares a call of `method` on the server at `address`. The first message
  // of the worker begins the call. If `refusal` is an error, that message ends
  // the worker's call with `refusal` instead. `worker` must exist until
  // Front::OnGone is called, and `observer` must outlive this object.
  RelayedCall(const std::string& address, const std::string& method,
              absl::Status refusal,
              CallObserver<FromWorker, FromServer>* observer,
              ServerStream<FromServer>* worker)
      : server_(CreateChannel(address), method),
        refusal_(std::move(refusal)),
        observer_(observer),
        worker_(worker) {}

  void Break(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    broken_ = true;
    held_.reset();
    if (worker_ != nullptr) worker_->Close(status);
    if (started_) server_.Cancel();
  }

  void Release() override ABSL_LOCKS_EXCLUDED(mu_) {
    std::optional<std::pair<FromServer, OutgoingPayload>> held;
    {
      absl::MutexLock lock(&mu_);
      held = std::exchange(held_, std::nullopt);
    }
    if (!held.has_value()) return;
    observer_->OnServer(&held->first);
    absl::MutexLock lock(&mu_);
    if (worker_ == nullptr || broken_) return;
    worker_->Send(held->first, held->second, 0);
    server_.Resume();
  }

  void AwaitDone() override ABSL_LOCKS_EXCLUDED(mu_) {
    {
      absl::MutexLock lock(&mu_);
      if (!started_) return;
    }
    server_.AwaitDone().IgnoreError();
  }

  // ---- The server's end.
  bool OnMessage(const FromServer& received, ReceivedPayload payload) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    FromServer message = received;
    // `mu_` is locked while the observer decides, because a concurrent Release
    // must find a message that the observer holds back.
    absl::MutexLock lock(&mu_);
    if (broken_) return true;
    if (!observer_->OnServer(&message)) {
      held_.emplace(message, Copy(message, payload));
      return false;
    }
    if (worker_ != nullptr) worker_->Send(message, Copy(message, payload), 0);
    return true;
  }

  void OnGone(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    bool broken;
    {
      absl::MutexLock lock(&mu_);
      broken = broken_;
      held_.reset();
    }
    // Tells the observer that the call has ended before the worker can react to
    // the end.
    if (!broken) observer_->OnEnd(this, status);
    absl::MutexLock lock(&mu_);
    if (worker_ != nullptr) worker_->Close(status);
  }

 private:
  void OnWorker(const FromWorker& message, const ReceivedPayload& payload)
      ABSL_LOCKS_EXCLUDED(mu_) {
    if (!refusal_.ok()) return Break(refusal_);
    if (!observer_->OnWorker(this, message)) return;
    absl::MutexLock lock(&mu_);
    if (broken_) return;
    if (!started_) server_.Start(this);
    started_ = true;
    server_.Send(message, Copy(message, payload), 0);
  }

  void OnWorkerEnd() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (started_) server_.HalfClose();
  }

  void OnWorkerGone() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    worker_ = nullptr;
    held_.reset();
    if (started_) server_.Cancel();
  }

  template <typename Message>
  static OutgoingPayload Copy(const Message& message,
                              const ReceivedPayload& payload) {
    OutgoingPayload copy;
    if (payload.bytes() == 0 && !AlwaysHasPayload(message)) return copy;
    const auto bytes = std::make_shared<std::string>(payload.bytes(), '\0');
    payload.Copy(0, payload.bytes(), bytes->data());
    copy.data = bytes->data();
    copy.bytes = payload.bytes();
    copy.owner = bytes;
    return copy;
  }

  GrpcClientStream<FromServer, FromWorker> server_;
  const absl::Status refusal_;
  CallObserver<FromWorker, FromServer>* const observer_;

  absl::Mutex mu_;
  ServerStream<FromServer>* worker_ ABSL_GUARDED_BY(mu_);
  bool started_ ABSL_GUARDED_BY(mu_) = false;
  bool broken_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<std::pair<FromServer, OutgoingPayload>> held_
      ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_RELAYED_CALL_H_
