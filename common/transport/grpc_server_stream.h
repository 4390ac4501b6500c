// ServerStreams over gRPC: a queue of messages to write, one write in flight,
// and exactly one Finish.
#ifndef TRIBUTARY_COMMON_TRANSPORT_GRPC_SERVER_STREAM_H_
#define TRIBUTARY_COMMON_TRANSPORT_GRPC_SERVER_STREAM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/stream/message_stream.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/live_calls.h"
#include "grpcpp/alarm.h"
#include "grpcpp/support/server_callback.h"

namespace tributary {

// Sends the messages of one call through a `Reactor` of gRPC, and is the base
// of the classes below, which receive messages. Owns the call's session, counts
// as a call in progress of the service (see LiveCalls), and deletes itself when
// gRPC has finished the call. Thread-safe.
template <typename Reactor, typename In, typename Out>
class GrpcServerCall : public Reactor, public ServerStream<Out> {
 public:
  using ServerStream<Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override ABSL_LOCKS_EXCLUDED(mu_) {
    grpc::ByteBuffer bytes = EncodeAny(message, std::move(payload));
    absl::MutexLock lock(&mu_);
    if (closing_.has_value()) return;
    queue_.emplace(priority, std::move(bytes));
    Proceed();
  }

  using ServerStream<Out>::Drop;
  bool Drop(absl::Span<const int64_t> priorities) override
      ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return DropFrom(&queue_, priorities);
  }

  void Wake() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    Proceed();
  }

  void Close(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (closing_.has_value()) return;
    closing_ = ToGrpc(status);
    Proceed();
  }

 protected:
  explicit GrpcServerCall(std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)) {}
  ~GrpcServerCall() override = default;

  // Call it before any other method.
  void SetSession(std::unique_ptr<ServerSession<In, Out>> session) {
    session_ = std::move(session);
  }
  ServerSession<In, Out>* session() const { return session_.get(); }

  // Passes a message to the session. Closes the call with the error if the
  // message cannot be decoded.
  void Receive(grpc::ByteBuffer* bytes) {
    In message;
    ReceivedPayload payload;
    const absl::Status decoded = DecodeAny(bytes, &message, &payload);
    if (decoded.ok()) {
      session_->OnMessage(message, std::move(payload));
    } else {
      Close(decoded);
    }
  }

  void OnDone() override {
    session_->OnGone();
    // Another thread may have called Finish and still hold mu_. Waits until it
    // has released mu_, because mu_ is destroyed with this object.
    { absl::MutexLock lock(&mu_); }
    delete this;
  }

 private:
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_) {
    bool sent = false;
    {
      absl::MutexLock lock(&mu_);
      writing_ = false;
      out_.Clear();  // Frees the payload, even if no message follows.
      if (!ok) queue_.clear();
      Proceed();
      sent = ok && !writing_ && !closing_.has_value();
    }
    // gRPC finishes the call only after OnWriteDone has returned.
    if (sent) session_->OnSent();
  }

  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    queue_.clear();
    if (!closing_.has_value()) {
      closing_ = grpc::Status(grpc::StatusCode::CANCELLED,
                              "the peer has disconnected");
    }
    Proceed();
  }

  void Proceed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      out_ = std::move(queue_.begin()->second);
      queue_.erase(queue_.begin());
    } else if (closing_.has_value()) {
      finished_ = true;
      this->Finish(*closing_);
      return;
    } else if (Out more; session_ != nullptr && session_->TakeMore(&more)) {
      out_ = Encode(more);
    } else {
      return;
    }
    writing_ = true;
    this->StartWrite(&out_);
  }

  const LiveCalls::Token token_;
  std::unique_ptr<ServerSession<In, Out>> session_;

  absl::Mutex mu_;
  std::multimap<int64_t, grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mu_);
  // The message that is being written. Owned by gRPC while writing_ is true.
  grpc::ByteBuffer out_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<grpc::Status> closing_ ABSL_GUARDED_BY(mu_);
};

// Serves one call with a stream of messages in each direction. Create the
// object with new when the call begins, then call Start. If a message cannot be
// decoded, closes the call with the error. Thread-safe.
template <typename In, typename Out>
class GrpcServerStream final
    : public GrpcServerCall<
          grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, In,
          Out> {
  using Call = GrpcServerCall<
      grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>, In, Out>;

 public:
  explicit GrpcServerStream(std::shared_ptr<LiveCalls> calls)
      : Call(std::move(calls)) {}

  // Starts to read messages and deliver them to `session`. Closes the call if
  // the first message does not arrive within `silence`.
  void Start(std::unique_ptr<ServerSession<In, Out>> session,
             absl::Duration silence) {
    this->SetSession(std::move(session));
    {
      absl::MutexLock lock(&watch_->mu);
      watch_->stream = this;
    }
    watch_->alarm.Set(absl::ToChronoTime(absl::Now() + silence),
                      // A weak reference avoids a cycle: the watch owns the
                      // alarm, and the alarm owns this callback.
                      [weak = std::weak_ptr<Watch>(watch_)](bool over) {
                        const std::shared_ptr<Watch> watch = weak.lock();
                        if (over && watch != nullptr) watch->SendAway();
                      });
    this->StartRead(&in_);
  }

 private:
  // Closes the call if its first message does not arrive in time. A separate
  // object, because the alarm's callback may run after the stream is deleted.
  struct Watch {
    void SendAway() ABSL_LOCKS_EXCLUDED(mu) {
      absl::MutexLock lock(&mu);
      if (stream == nullptr) return;
      stream->Close(absl::DeadlineExceededError(
          "no message arrived after the call was opened"));
    }
    void End() ABSL_LOCKS_EXCLUDED(mu) {
      {
        absl::MutexLock lock(&mu);
        stream = nullptr;
      }
      alarm.Cancel();
    }

    absl::Mutex mu;
    GrpcServerStream* stream ABSL_GUARDED_BY(mu) = nullptr;
    grpc::Alarm alarm;
  };

  ~GrpcServerStream() override = default;

  void OnReadDone(bool ok) override {
    if (!greeted_) {
      greeted_ = true;
      watch_->End();
    }
    if (!ok) {
      this->session()->OnEnd();
      return;
    }
    this->Receive(&in_);
    this->StartRead(&in_);
  }

  void OnDone() override {
    watch_->End();
    Call::OnDone();
  }

  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  // The message that is being read. Accessed only by the read in flight.
  grpc::ByteBuffer in_;
  bool greeted_ = false;
};

// Serves one call with one message from the client, the request, and a stream
// of messages from the server. Create the object with new when the call begins,
// then call Start. Thread-safe.
template <typename In, typename Out>
class GrpcResponseStream final
    : public GrpcServerCall<grpc::ServerWriteReactor<grpc::ByteBuffer>, In,
                            Out> {
  using Call =
      GrpcServerCall<grpc::ServerWriteReactor<grpc::ByteBuffer>, In, Out>;

 public:
  explicit GrpcResponseStream(std::shared_ptr<LiveCalls> calls)
      : Call(std::move(calls)) {}

  // Delivers `request` to `session`, and then the end of the client's messages.
  // Closes the call with the error if the request cannot be decoded.
  void Start(std::unique_ptr<ServerSession<In, Out>> session,
             const grpc::ByteBuffer& request) {
    this->SetSession(std::move(session));
    grpc::ByteBuffer bytes = request;
    this->Receive(&bytes);
    this->session()->OnEnd();
  }

 private:
  ~GrpcResponseStream() override = default;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_GRPC_SERVER_STREAM_H_
