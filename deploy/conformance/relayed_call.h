// One call of a worker that a WireTap relays.
#ifndef TRIBUTARY_DEPLOY_CONFORMANCE_RELAYED_CALL_H_
#define TRIBUTARY_DEPLOY_CONFORMANCE_RELAYED_CALL_H_

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

namespace tributary {

// The part of a relayed call that does not depend on its messages. Thread-safe.
class Call {
 public:
  virtual ~Call() = default;
  // Ends the call for the worker with `status`, and cancels it for the server.
  virtual void Break(const absl::Status& status) = 0;
  // Sends a message that was held back, if any.
  virtual void Release() = 0;
  // Blocks until the server's end is closed. Call it after the worker's end.
  virtual void AwaitDone() = 0;
};

// What a tap does with the messages of a call.
template <typename FromWorker, typename FromServer>
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void OnWorker(const void* call, const FromWorker& message) = 0;
  // May change the message. Returns false to hold it back until Release.
  virtual bool OnServer(FromServer* message) = 0;
  // The server has ended the call.
  virtual void OnEnd(const void* call, const absl::Status& status) = 0;
};

// Relays the messages of a call in both directions. The worker's end is a
// ServerStream, which owns a Front. Thread-safe.
template <typename FromWorker, typename FromServer>
class RelayedCall final : public Call,
                          public ClientSession<FromServer, FromWorker> {
 public:
  // The session of the worker's end.
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

  // Calls `method` of the server at `address`, unless `refusal` is an error,
  // with which the call then ends after its first message. `worker` must live
  // until Front::OnGone, and `observer` as long as this object.
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
    const bool passes = observer_->OnServer(&message);
    absl::MutexLock lock(&mu_);
    if (broken_) return true;
    if (!passes) {
      held_.emplace(message, Copy(payload));
      return false;
    }
    if (worker_ != nullptr) worker_->Send(message, Copy(payload), 0);
    return true;
  }

  void OnGone(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    bool broken;
    {
      absl::MutexLock lock(&mu_);
      broken = broken_;
      held_.reset();
    }
    // The observer knows of the end before the worker can react to it.
    if (!broken) observer_->OnEnd(this, status);
    absl::MutexLock lock(&mu_);
    if (worker_ != nullptr) worker_->Close(status);
  }

 private:
  void OnWorker(const FromWorker& message, const ReceivedPayload& payload)
      ABSL_LOCKS_EXCLUDED(mu_) {
    if (!refusal_.ok()) return Break(refusal_);
    observer_->OnWorker(this, message);
    absl::MutexLock lock(&mu_);
    if (broken_) return;
    if (!started_) server_.Start(this);
    started_ = true;
    server_.Send(message, Copy(payload), 0);
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

  static OutgoingPayload Copy(const ReceivedPayload& payload) {
    OutgoingPayload copy;
    if (payload.bytes() == 0) return copy;
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

#endif  // TRIBUTARY_DEPLOY_CONFORMANCE_RELAYED_CALL_H_
