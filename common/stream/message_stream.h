// Bidirectional streams of messages, without gRPC. A session holds the logic of
// one end: it receives messages through a ServerSession or ClientSession, and
// sends through a ServerStream or ClientStream. grpc_server_stream.h and
// grpc_client_stream.h implement the streams; tests implement them in memory.
#ifndef TRIBUTARY_COMMON_STREAM_MESSAGE_STREAM_H_
#define TRIBUTARY_COMMON_STREAM_MESSAGE_STREAM_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "common/stream/received_payload.h"

namespace tributary {

// The payload of a message to send. The bytes must stay unchanged until the
// stream releases `owner`. Null for a message without a payload.
struct OutgoingPayload {
  const void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// The sending half of a stream's end. Thread-safe. No method blocks, and all
// may be called with locks held.
template <typename Out>
class OutgoingStream {
 public:
  virtual ~OutgoingStream() = default;

  // Queues a message. Messages of lower `priority` are sent first, messages of
  // equal priority in the order of calls. A payload becomes the field `payload`
  // of the message's Initial, Contribution, Weights or JournalPart.
  virtual void Send(const Out& message, OutgoingPayload payload,
                    int64_t priority) = 0;
  void Send(const Out& message, int64_t priority = 0) {
    Send(message, OutgoingPayload(), priority);
  }

  // Announces that the session's TakeMore has a message.
  virtual void Wake() = 0;
};

// The server's end.
template <typename Out>
class ServerStream : public OutgoingStream<Out> {
 public:
  using OutgoingStream<Out>::Send;

  // Removes queued messages of this priority. Returns true if there were any.
  virtual bool Drop(int64_t priority) = 0;
  // Ends the call with `status` after the queue has been sent. Later calls and
  // messages are ignored.
  virtual void Close(const absl::Status& status) = 0;
};

// The logic of a server's end. The stream calls one method at a time, except
// TakeMore. No method may block. The stream may be used until OnGone has
// returned.
template <typename In, typename Out>
class ServerSession {
 public:
  virtual ~ServerSession() = default;

  // Called for each message. The next one is read after it returns. `payload`
  // is the field `payload` of an Initial, Contribution or JournalPart, which is
  // empty in `message`.
  virtual void OnMessage(const In& message, ReceivedPayload payload) = 0;
  // Called when no more messages will arrive: the client has half-closed or
  // disconnected.
  virtual void OnEnd() = 0;
  // Called when the call has ended.
  virtual void OnGone() = 0;
  // Called when the queue is empty and the last message has been sent, so that
  // data which accumulated meanwhile goes into one message. Fills the message
  // and returns true, or returns false if there is nothing to send. The
  // stream's lock is held.
  virtual bool TakeMore(Out*) { return false; }
};

// The logic of a client's end. The stream calls one method at a time, except
// TakeMore. No method may block.
template <typename In, typename Out>
class ClientSession {
 public:
  virtual ~ClientSession() = default;

  // Called for each message. Return true to read the next one, or false to
  // pause until ClientStream::Resume. `payload` is the field `payload` of a
  // Weights, which is empty in `message`.
  virtual bool OnMessage(const In& message, ReceivedPayload payload) = 0;
  // Called when the call has ended, with its status, or with the error of a
  // message that cannot be decoded.
  virtual void OnGone(const absl::Status& status) = 0;
  // As ServerSession::TakeMore.
  virtual bool TakeMore(Out*) { return false; }
};

// The client's end. The owner calls Start once, and keeps the stream and the
// session until AwaitDone has returned.
template <typename In, typename Out>
class ClientStream : public OutgoingStream<Out> {
 public:
  using OutgoingStream<Out>::Send;

  // Starts the call and delivers what arrives to `session`.
  virtual void Start(ClientSession<In, Out>* session) = 0;
  // Half-closes the stream after the queue has been sent. Later messages are
  // ignored.
  virtual void HalfClose() = 0;
  // Cancels the call immediately.
  virtual void Cancel() = 0;
  // Resumes reading after OnMessage has returned false.
  virtual void Resume() = 0;
  // Blocks until the call has ended and the session is not called any more.
  // Returns the status that OnGone received.
  virtual absl::Status AwaitDone() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_MESSAGE_STREAM_H_
