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
#include "absl/types/span.h"
#include "common/stream/received_payload.h"

namespace tributary {

// The payload of a message to send. The bytes must stay unchanged until the
// stream releases `owner`. `data` is null for a message without a payload.
struct OutgoingPayload {
  const void* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<const void> owner;
};

// The part of a stream that sends messages of type Out; each of the two ends
// has one. Thread-safe. No method blocks. All may be called with locks held,
// except locks that the session's TakeMore acquires.
template <typename Out>
class MessageStream {
 public:
  virtual ~MessageStream() = default;

  // Queues a message. Messages with a lower value of `priority` are sent first,
  // and messages with equal values in the order of the calls. A payload becomes
  // the field `payload` of the message's inner message, which must have this
  // field.
  virtual void Send(const Out& message, OutgoingPayload payload,
                    int64_t priority) = 0;
  void Send(const Out& message, int64_t priority = 0) {
    Send(message, OutgoingPayload(), priority);
  }

  // Tells the stream that the session's TakeMore can provide a message.
  virtual void Wake() = 0;
};

// What ServerStream::Drop does with a queue: a multimap whose keys are the
// priorities.
template <typename Queue>
bool DropFrom(Queue* queue, absl::Span<const int64_t> priorities) {
  if (queue->erase(priorities.front()) == 0) return false;
  for (const int64_t priority : priorities.subspan(1)) queue->erase(priority);
  return true;
}

// The server's end of a stream.
template <typename Out>
class ServerStream : public MessageStream<Out> {
 public:
  using MessageStream<Out>::Send;

  // Removes all queued messages with these priorities, of which there is at
  // least one. Does nothing and returns false if none has the first one.
  virtual bool Drop(absl::Span<const int64_t> priorities) = 0;
  bool Drop(int64_t priority) {
    return Drop(absl::MakeConstSpan(&priority, 1));
  }
  // Ends the call with `status` after all queued messages have been sent.
  // Ignores messages that are sent later, and later calls of Close.
  virtual void Close(const absl::Status& status) = 0;
};

// The logic of a server's end. The stream calls one method at a time, except
// TakeMore and OnSent, which it may call concurrently with another method. No
// method may block. The session may use its stream until OnGone has returned.
template <typename In, typename Out>
class ServerSession {
 public:
  virtual ~ServerSession() = default;

  // Called for each message. The next message is read after OnMessage has
  // returned. `payload` holds the field `payload` of the inner message, if it
  // has one; this field is empty in `message`.
  virtual void OnMessage(const In& message, ReceivedPayload payload) = 0;
  // Called when no more messages will arrive: the client has half-closed the
  // stream or disconnected.
  virtual void OnEnd() = 0;
  // Called when the call has ended.
  virtual void OnGone() = 0;
  // Called when all queued messages have been sent. Fills in the next message
  // and returns true, or returns false if there is nothing to send. A session
  // can thereby send data that accumulated in the meantime as one message. The
  // stream's lock is held during the call.
  virtual bool TakeMore(Out*) { return false; }
  // Called when all queued messages have been sent and the stream is not
  // closed. A session that sends much data can thereby keep only one message in
  // the queue. The stream's lock is not held. If OnSent queues a message, the
  // next call may begin before this one has returned.
  virtual void OnSent() {}
};

// The logic of a client's end. The stream calls one method at a time, except
// TakeMore, which it may call concurrently with another method. No method may
// block.
template <typename In, typename Out>
class ClientSession {
 public:
  virtual ~ClientSession() = default;

  // Called for each message. Return true to read the next one, or false to
  // pause until ClientStream::Resume. `payload` holds the field `payload` of
  // the inner message, if it has one; this field is empty in `message`.
  virtual bool OnMessage(const In& message, ReceivedPayload payload) = 0;
  // Called when the call has ended. `status` is the status with which the
  // server ended the call, or the error if a received message could not be
  // decoded or the connection broke.
  virtual void OnGone(const absl::Status& status) = 0;
  // Called when all queued messages have been sent. Fills in the next message
  // and returns true, or returns false if there is nothing to send. A session
  // can thereby send data that accumulated in the meantime as one message. The
  // stream's lock is held during the call.
  virtual bool TakeMore(Out*) { return false; }
};

// The client's end of a stream. The owner calls Start once, and keeps the
// stream and the session until AwaitDone has returned.
template <typename In, typename Out>
class ClientStream : public MessageStream<Out> {
 public:
  using MessageStream<Out>::Send;

  // Starts the call, and returns without waiting. Received messages are
  // delivered to `session`, which must live until AwaitDone has returned.
  virtual void Start(ClientSession<In, Out>* session) = 0;
  // Half-closes the stream after all queued messages have been sent. Ignores
  // messages that are sent later.
  virtual void HalfClose() = 0;
  // Cancels the call immediately.
  virtual void Cancel() = 0;
  // Resumes reading after OnMessage has returned false.
  virtual void Resume() = 0;
  // Blocks until the call has ended and the stream no longer calls the session.
  // Returns the status that OnGone received.
  virtual absl::Status AwaitDone() = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_MESSAGE_STREAM_H_
