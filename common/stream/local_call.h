// Calls between objects of one process. They behave like calls over gRPC, but
// messages and payloads pass from one end to the other as they are: nothing is
// encoded, and the receiver reads a payload in the sender's memory.
#ifndef TRIBUTARY_COMMON_STREAM_LOCAL_CALL_H_
#define TRIBUTARY_COMMON_STREAM_LOCAL_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/base/monotonic_clock.h"
#include "common/stream/local_calls.h"
#include "common/stream/local_queue.h"
#include "common/stream/message_stream.h"

namespace tributary {

// Both ends of a call, whose server receives `In` and sends `Out`. Each end has
// a queue of messages, which tasks of an executor deliver. The client's stream,
// the tasks and the LocalCalls that count the call share its ownership.
//
// The end of a call goes one way: first the server's queue ends (Close, Cancel
// or LocalCalls::ShutDown), and the client's session is told; then the client's
// queue ends, and the server's session is told and destroyed.
template <typename In, typename Out>
class LocalCall final : public LocalCalls::Call,
                        public std::enable_shared_from_this<LocalCall<In, Out>>,
                        private ServerStream<Out> {
 public:
  // Makes the session of the server's end, whose stream is `stream`.
  using MakeSession = std::function<std::unique_ptr<ServerSession<In, Out>>(
      ServerStream<Out>* stream)>;

  // Returns the client's end of a call that the server of `calls` serves with
  // the session that `make` returns. Start ends the call with Unavailable if
  // the server does not accept calls any more.
  static std::unique_ptr<ClientStream<Out, In>> Open(
      std::shared_ptr<LocalCalls> calls, MakeSession make) {
    return std::make_unique<Client>(std::shared_ptr<LocalCall>(
        new LocalCall(std::move(calls), std::move(make))));
  }

  void Cancel(const absl::Status& status) override {
    to_client_.Cut([&] { end_ = status; });
  }

 private:
  class Client final : public ClientStream<Out, In> {
   public:
    explicit Client(std::shared_ptr<LocalCall> call) : call_(std::move(call)) {}

    void Start(ClientSession<Out, In>* session) override {
      call_->Start(session);
    }
    using ClientStream<Out, In>::Send;
    void Send(const In& message, OutgoingPayload payload,
              int64_t priority) override {
      call_->to_server_.Send(message, std::move(payload), priority);
    }
    void Wake() override { call_->to_server_.Wake(); }
    void HalfClose() override {
      call_->to_server_.Close([] {});
    }
    void Cancel() override {
      call_->to_server_.Stop();
      call_->Cancel(absl::CancelledError("cancelled"));
    }
    void Resume() override { call_->to_client_.Resume(); }
    absl::Status AwaitDone() override { return call_->AwaitDone(); }

   private:
    const std::shared_ptr<LocalCall> call_;
  };

  LocalCall(std::shared_ptr<LocalCalls> calls, MakeSession make)
      : calls_(std::move(calls)),
        make_(std::move(make)),
        to_server_(calls_->executor(), /*takes_after_close=*/true),
        to_client_(calls_->executor(), /*takes_after_close=*/false) {}

  void Start(ClientSession<Out, In>* client) {
    client_ = client;
    const std::shared_ptr<LocalCall> self = this->shared_from_this();
    if (calls_->Add(self)) {
      server_ = make_(this);
    } else {
      to_server_.Stop();
      Cancel(absl::UnavailableError("the server does not accept calls"));
    }
    typename LocalQueue<In>::Handlers up;
    up.take_more = [this](In* more) { return client_->TakeMore(more); };
    up.deliver = [this](const In& message, ReceivedPayload payload) {
      server_->OnMessage(message, std::move(payload));
      return true;
    };
    up.closed = [this] { EndInput(); };
    up.cut = [this] { EndServer(); };
    typename LocalQueue<Out>::Handlers down;
    down.take_more = [this](Out* more) { return server_->TakeMore(more); };
    down.deliver = [this](const Out& message, ReceivedPayload payload) {
      return client_->OnMessage(message, std::move(payload));
    };
    down.sent = [this] { server_->OnSent(); };
    down.closed = [this] { EndClient(); };
    down.cut = down.closed;
    to_client_.Start(std::move(down), self);
    to_server_.Start(std::move(up), self);
  }

  // ---- The server's stream.
  using ServerStream<Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override {
    to_client_.Send(message, std::move(payload), priority);
  }
  void Wake() override { to_client_.Wake(); }
  using ServerStream<Out>::Drop;
  bool Drop(absl::Span<const int64_t> priorities) override {
    return to_client_.Drop(priorities);
  }
  void Close(const absl::Status& status) override {
    to_client_.Close([&] { end_ = status; });
  }

  // ---- Called by the queues.
  // The client has half-closed its end, or is gone.
  void EndInput() {
    if (server_ != nullptr && !std::exchange(input_ended_, true)) {
      server_->OnEnd();
    }
  }
  void EndClient() {
    if (std::exchange(client_told_, true)) return;
    client_->OnGone(end_);
    to_client_.Cut([] {});
    to_server_.Cut([] {});
  }
  void EndServer() {
    {
      // From here on, nothing calls the client's session.
      absl::MutexLock lock(&mu_);
      done_ = true;
    }
    if (server_ == nullptr) return;
    EndInput();
    server_->OnGone();
    server_ = nullptr;
    calls_->Remove(this);
  }

  absl::Status AwaitDone() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Await(&mu_, absl::Condition(&done_));
    return end_;
  }

  const std::shared_ptr<LocalCalls> calls_;
  const MakeSession make_;
  ClientSession<Out, In>* client_ = nullptr;
  // Null if the server did not accept the call, and after its end.
  std::unique_ptr<ServerSession<In, Out>> server_;
  bool input_ended_ = false;  // Accessed only by handlers of to_server_.
  bool client_told_ = false;  // Accessed only by handlers of to_client_.
  // The status of the call. Set once, under the lock of to_client_, before the
  // end of to_client_.
  absl::Status end_;
  LocalQueue<In> to_server_;
  LocalQueue<Out> to_client_;
  absl::Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_LOCAL_CALL_H_
