// Encoding and decoding of the exchange's messages around gRPC's byte buffers:
// on the wire they are the protobuf messages of parameter_server.proto (a test
// proves it against the generated code), but an outgoing payload is borrowed
// instead of copied, and an incoming one is left in the pieces in which it
// came.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_
#define TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/journal.pb.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// The payload of `message`'s inner message (Initial, Contribution, Weights or
// JournalPart) must be empty; `bytes` bytes at `payload` take its place.
// `owner` is held until gRPC has done with them.
grpc::ByteBuffer EncodeWithPayload(const WorkerMessage& message,
                                   const void* payload, int64_t bytes,
                                   std::shared_ptr<const void> owner);
grpc::ByteBuffer EncodeWithPayload(const ServerMessage& message,
                                   const void* payload, int64_t bytes,
                                   std::shared_ptr<const void> owner);
grpc::ByteBuffer EncodeWithPayload(const JournalMessage& message,
                                   const void* payload, int64_t bytes,
                                   std::shared_ptr<const void> owner);

// Encodes a message that has no payload.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message);
// Parses a whole message without a payload, copying. InvalidArgument if it is
// not one; ResourceExhausted, before it is parsed, if it is beyond
// kDefaultLimits.
absl::Status Decode(grpc::ByteBuffer* bytes,
                    google::protobuf::Message* message);

// The bytes of a payload in gRPC's own buffers, which it keeps alive.
// Immutable.
class ReceivedPayload {
 public:
  ReceivedPayload() = default;
  // The last `payload_bytes` of `bytes`.
  ReceivedPayload(const grpc::ByteBuffer& bytes, uint32_t payload_bytes);

  int64_t bytes() const { return bytes_; }
  // Copies bytes [begin, begin + count).
  void Copy(int64_t begin, int64_t count, void* to) const;
  // Where bytes [begin, begin + count) are: in place, at any address, if they
  // came in one piece, else `scratch` after copying them there.
  const char* View(int64_t begin, int64_t count, char* scratch) const;

 private:
  struct Piece {
    const uint8_t* data = nullptr;
    int64_t end = 0;  // Where the piece after it begins, in bytes.
  };
  // The piece with byte `position`, and where it begins.
  std::vector<Piece>::const_iterator Find(int64_t position,
                                          int64_t* begin) const;

  std::vector<grpc::Slice> slices_;
  std::vector<Piece> pieces_;
  int64_t bytes_ = 0;
};

// Decodes a WorkerMessage, ServerMessage or JournalMessage. The payload of an
// Initial, Contribution, Weights or JournalPart goes to `*payload`, the fields
// before it to `*message`. InvalidArgument for bytes that are no such message,
// or a payload that is missing or not the last field; whether its length is
// right is for the caller to check.
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, WorkerMessage* message,
                           ReceivedPayload* payload);
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, ServerMessage* message,
                           ReceivedPayload* payload);
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, JournalMessage* message,
                           ReceivedPayload* payload);

// How many chunks in shared memory one message is to speak of, while others
// follow at once: at least so many that reading and writing them takes longer
// than the message, and that a server's `chunks` need no more than 32 messages
// in a step.
constexpr size_t WordsPerMessage(size_t chunks, int64_t chunk_elements) {
  constexpr int64_t kElements = 1 << 20;
  const size_t enough = (kElements + chunk_elements - 1) / chunk_elements;
  return enough > chunks / 32 ? enough : chunks / 32;
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_
