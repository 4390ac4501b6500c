// Encodes and decodes the messages of the exchange in gRPC's byte buffers
// without copying payloads. On the wire they are the protobuf messages of
// parameter_server.proto; a test compares them with the generated code. An
// outgoing payload is borrowed, and an incoming one stays in the slices in
// which it arrived.
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

// Encodes `message` with the `bytes` bytes at `payload` as the payload of its
// inner message (Initial, Contribution, Weights or JournalPart), which must be
// empty. `owner` is held until gRPC no longer needs the bytes.
grpc::ByteBuffer EncodeWithPayload(const WorkerMessage& message,
                                   const void* payload, int64_t bytes,
                                   std::shared_ptr<const void> owner);
grpc::ByteBuffer EncodeWithPayload(const ServerMessage& message,
                                   const void* payload, int64_t bytes,
                                   std::shared_ptr<const void> owner);
grpc::ByteBuffer EncodeWithPayload(const JournalMessage& message,
                                   const void* payload, int64_t bytes,
                                   std::shared_ptr<const void> owner);

// Encodes a message without a payload.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message);
// Parses a whole message without a payload by copying. InvalidArgument if it is
// malformed; ResourceExhausted, before it is parsed, if it exceeds
// kDefaultLimits.
absl::Status Decode(grpc::ByteBuffer* bytes,
                    google::protobuf::Message* message);

// The bytes of a payload in gRPC's buffers, which this object keeps alive.
// Immutable.
class ReceivedPayload {
 public:
  ReceivedPayload() = default;
  // The last `payload_bytes` bytes of `bytes`.
  ReceivedPayload(const grpc::ByteBuffer& bytes, uint32_t payload_bytes);

  int64_t bytes() const { return bytes_; }
  // Copies bytes [begin, begin + count) to `to`.
  void Copy(int64_t begin, int64_t count, void* to) const;
  // Returns a pointer to bytes [begin, begin + count), which may be unaligned:
  // in place if they are in one slice, otherwise `scratch` after copying them
  // there.
  const char* View(int64_t begin, int64_t count, char* scratch) const;

 private:
  struct Piece {
    const uint8_t* data = nullptr;
    int64_t end = 0;  // Offset, in bytes, at which the next piece begins.
  };
  // Returns the piece that contains byte `position` and sets `*begin` to its
  // start.
  std::vector<Piece>::const_iterator Find(int64_t position,
                                          int64_t* begin) const;

  std::vector<grpc::Slice> slices_;
  std::vector<Piece> pieces_;
  int64_t bytes_ = 0;
};

// Decodes a WorkerMessage, ServerMessage or JournalMessage. Moves the payload
// of an Initial, Contribution, Weights or JournalPart to `*payload`, and the
// fields before it to `*message`. InvalidArgument for bytes that are not such a
// message, or whose payload is missing or not the last field. The caller checks
// the length of the payload.
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, WorkerMessage* message,
                           ReceivedPayload* payload);
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, ServerMessage* message,
                           ReceivedPayload* payload);
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, JournalMessage* message,
                           ReceivedPayload* payload);

// Number of chunks in shared memory that one message announces while more
// follow. It is large enough that accessing the chunks takes longer than the
// message, and that a server's `chunks` need at most 32 messages per step.
constexpr size_t WordsPerMessage(size_t chunks, int64_t chunk_elements) {
  constexpr int64_t kElements = 1 << 20;
  const size_t enough = (kElements + chunk_elements - 1) / chunk_elements;
  return enough > chunks / 32 ? enough : chunks / 32;
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_
