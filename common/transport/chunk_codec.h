// Encodes and decodes the messages of the exchange in gRPC's byte buffers
// without copying payloads. On the wire they are the protobuf messages of
// parameter_server.proto, journal.proto and pipeline.proto; a test compares
// them with the generated code. The payload of an outgoing message stays in the
// memory of its owner. The payload of an incoming message stays in the slices
// in which it arrived.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_
#define TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_payload.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/journal.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/pipeline.pb.h"

namespace tributary {

// Encodes `message` with the bytes of `payload` as the field `payload` of its
// inner message (Initial, Contribution, RowsRequest, RowContribution, Weights,
// Rows, JournalPart, or StageTransfer in StageMessage.transfer). This field
// must be empty in `message`. Does not copy the payload: the result holds a
// reference to its owner until gRPC no longer needs the bytes.
grpc::ByteBuffer Encode(const WorkerMessage& message, OutgoingPayload payload);
grpc::ByteBuffer Encode(const ServerMessage& message, OutgoingPayload payload);
grpc::ByteBuffer Encode(const JournalMessage& message, OutgoingPayload payload);
grpc::ByteBuffer Encode(const StageMessage& message, OutgoingPayload payload);

// Encodes a message without a payload.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message);
// Parses a message without a payload, and copies its contents. Returns
// InvalidArgument if it is malformed; ResourceExhausted, without parsing the
// message, if it exceeds kDefaultLimits.
absl::Status Decode(grpc::ByteBuffer* bytes,
                    google::protobuf::Message* message);

// Returns the last `payload_bytes` bytes of `bytes`, without copying them.
ReceivedPayload PayloadAtEnd(const grpc::ByteBuffer& bytes,
                             int64_t payload_bytes);

// Decodes a WorkerMessage, ServerMessage, JournalMessage or StageMessage. Moves
// the payload of such an inner message to `*payload`, and the fields before it
// to `*message`.
// Decodes all other kinds of messages, which have no payload, as Decode does.
// Returns InvalidArgument for bytes that are not such a message, or if a
// message of one of the kinds above has no payload or a field after the
// payload. Also returns the errors of Decode. The caller must check the length
// of the payload.
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, WorkerMessage* message,
                           ReceivedPayload* payload);
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, ServerMessage* message,
                           ReceivedPayload* payload);
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, JournalMessage* message,
                           ReceivedPayload* payload);
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, StageMessage* message,
                           ReceivedPayload* payload);

template <typename Message>
inline constexpr bool kMayHavePayload =
    std::is_same_v<Message, WorkerMessage> ||
    std::is_same_v<Message, ServerMessage> ||
    std::is_same_v<Message, JournalMessage> ||
    std::is_same_v<Message, StageMessage>;

// Encodes any message, with its payload if it has one.
template <typename Message>
grpc::ByteBuffer EncodeAny(const Message& message, OutgoingPayload payload) {
  if constexpr (kMayHavePayload<Message>) {
    if (payload.data != nullptr) return Encode(message, std::move(payload));
  }
  return Encode(message);
}

// Decodes any message: with DecodeInPlace if its type may have a payload,
// otherwise with Decode.
template <typename Message>
absl::Status DecodeAny(grpc::ByteBuffer* bytes, Message* message,
                       ReceivedPayload* payload) {
  if constexpr (kMayHavePayload<Message>) {
    return DecodeInPlace(bytes, message, payload);
  }
  return Decode(bytes, message);
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_
