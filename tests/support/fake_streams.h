// Streams in memory, to test sessions without gRPC.
#ifndef TRIBUTARY_TESTS_SUPPORT_FAKE_STREAMS_H_
#define TRIBUTARY_TESTS_SUPPORT_FAKE_STREAMS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/stream/message_stream.h"

namespace tributary {

// A message that a session has sent.
template <typename Message>
struct SentMessage {
  Message message;
  std::string payload;
  std::shared_ptr<const void> owner;  // Keeps the payload alive.
};

// Returns a payload with a copy of `bytes`.
inline ReceivedPayload PayloadFrom(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return ReceivedPayload(owner->data(), static_cast<int64_t>(owner->size()),
                         owner);
}

// The queue of a stream whose peer reads only when the test calls Read.
template <typename Out>
class FakeQueue {
 public:
  void Add(const Out& message, OutgoingPayload payload, int64_t priority) {
    queue_.emplace(
        priority,
        SentMessage<Out>{message,
                         std::string(static_cast<const char*>(payload.data),
                                     static_cast<size_t>(payload.bytes)),
                         std::move(payload.owner)});
  }
  // Returns the next message in the order of priorities. If the queue is empty,
  // returns the message that TakeMore of `session` provides, or nullopt if it
  // provides none.
  template <typename Session>
  std::optional<SentMessage<Out>> Take(Session* session) {
    if (queue_.empty()) {
      SentMessage<Out> more;
      if (!session->TakeMore(&more.message)) return std::nullopt;
      return more;
    }
    auto first = queue_.extract(queue_.begin());
    return std::move(first.mapped());
  }
  bool Drop(absl::Span<const int64_t> priorities) {
    return DropFrom(&queue_, priorities);
  }
  size_t size() const { return queue_.size(); }

 private:
  std::multimap<int64_t, SentMessage<Out>> queue_;
};

// The client's end of a stream. A test plays the server: it calls Read for each
// message that the session has sent, Receive to send a message to the session,
// and End to end the call. Not thread-safe.
template <typename In, typename Out>
class FakeClientStream final : public ClientStream<In, Out> {
 public:
  void Start(ClientSession<In, Out>* session) override { session_ = session; }
  using ClientStream<In, Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override {
    if (!half_closed_ && !ended_) queue_.Add(message, payload, priority);
  }
  void Wake() override {}
  void HalfClose() override { half_closed_ = true; }
  void Cancel() override { cancelled_ = true; }
  void Resume() override { ++resumed_; }
  // Ends the call if the test has not ended it.
  absl::Status AwaitDone() override {
    End(cancelled_ ? absl::CancelledError("cancelled") : absl::OkStatus());
    return status_;
  }

  std::optional<SentMessage<Out>> Read() { return queue_.Take(session_); }
  bool Receive(const In& message, const std::string& payload = "") {
    return session_->OnMessage(message, PayloadFrom(payload));
  }
  void End(const absl::Status& status) {
    if (std::exchange(ended_, true)) return;
    status_ = status;
    if (on_end_) on_end_();
    session_->OnGone(status);
  }
  // Sets a function that is called when the call ends.
  void OnEnd(std::function<void()> on_end) { on_end_ = std::move(on_end); }
  bool cancelled() const { return cancelled_; }
  int resumed() const { return resumed_; }

 private:
  ClientSession<In, Out>* session_ = nullptr;
  FakeQueue<Out> queue_;
  bool half_closed_ = false;
  bool cancelled_ = false;
  bool ended_ = false;
  int resumed_ = 0;
  absl::Status status_;
  std::function<void()> on_end_;
};

// What the server of a ScriptedClientStream does, and what the client did.
template <typename In, typename Out>
struct StreamScript {
  struct Answer {
    In message;
    std::string payload;
  };
  std::vector<Answer> answers;
  absl::Status status;  // The status with which the server ends the call.
  std::vector<Out> requests;
  bool half_closed = false;
  bool cancelled = false;
  int received = 0;  // Number of answers that the client has received.
};

// The client's end of a stream, for clients that block until the call has
// ended. The server follows a script, which must outlive this object, when the
// client calls AwaitDone. Not thread-safe.
template <typename In, typename Out>
class ScriptedClientStream final : public ClientStream<In, Out> {
 public:
  explicit ScriptedClientStream(StreamScript<In, Out>* script)
      : script_(script) {}

  void Start(ClientSession<In, Out>* session) override { session_ = session; }
  using ClientStream<In, Out>::Send;
  void Send(const Out& message, OutgoingPayload, int64_t) override {
    script_->requests.push_back(message);
  }
  void Wake() override {}
  void HalfClose() override { script_->half_closed = true; }
  void Cancel() override { script_->cancelled = true; }
  void Resume() override {}
  absl::Status AwaitDone() override {
    for (const auto& answer : script_->answers) {
      ++script_->received;
      if (!session_->OnMessage(answer.message, PayloadFrom(answer.payload))) {
        break;
      }
    }
    const absl::Status status = script_->cancelled
                                    ? absl::CancelledError("cancelled")
                                    : script_->status;
    session_->OnGone(status);
    return status;
  }

 private:
  StreamScript<In, Out>* const script_;
  ClientSession<In, Out>* session_ = nullptr;
};

// The server's end of a stream. A test plays the client: it calls Read for each
// message that the session has sent, and calls OnMessage of the session to send
// a message to the session. Not thread-safe.
template <typename Out>
class FakeServerStream final : public ServerStream<Out> {
 public:
  using ServerStream<Out>::Send;
  void Send(const Out& message, OutgoingPayload payload,
            int64_t priority) override {
    if (!closed_.has_value()) queue_.Add(message, payload, priority);
  }
  void Wake() override {}
  using ServerStream<Out>::Drop;
  bool Drop(absl::Span<const int64_t> priorities) override {
    return queue_.Drop(priorities);
  }
  void Close(const absl::Status& status) override {
    if (!closed_.has_value()) closed_ = status;
  }

  template <typename Session>
  std::optional<SentMessage<Out>> Read(Session* session) {
    auto message = queue_.Take(session);
    if (message.has_value() && queue_.size() == 0 && !closed_.has_value()) {
      session->OnSent();
    }
    return message;
  }
  size_t queued() const { return queue_.size(); }
  // Returns the status with which the session has closed the call, or nullopt
  // if the call is not closed.
  const std::optional<absl::Status>& closed() const { return closed_; }

 private:
  FakeQueue<Out> queue_;
  std::optional<absl::Status> closed_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_FAKE_STREAMS_H_
