// Encoding and decoding of the exchange's messages around gRPC's byte buffers:
// on the wire they are the protobuf messages of parameter_server.proto (a test
// proves it against the generated code), but an outgoing payload is borrowed
// instead of copied, and an incoming one is copied once, to where it is used,
// or left in the pieces in which it came.
#ifndef TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_
#define TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/buffer_pool.h"
#include "grpcpp/support/byte_buffer.h"
#include "proto/parameter_server.pb.h"

namespace tributary {

// The payload of `message`'s inner message (Initial, Contribution or Weights)
// must be empty; `elements` floats at `payload` take its place. `owner` is held
// until gRPC has done with them.
grpc::ByteBuffer EncodeWithPayload(const WorkerMessage& message,
                                   const float* payload, int64_t elements,
                                   std::shared_ptr<const void> owner);
grpc::ByteBuffer EncodeWithPayload(const ServerMessage& message,
                                   const float* payload, int64_t elements,
                                   std::shared_ptr<const void> owner);

// Encodes a message that has no payload.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message);
// Parses a whole message, payload and all, copying. InvalidArgument if it is
// not one.
absl::Status Decode(grpc::ByteBuffer* bytes,
                    google::protobuf::MessageLite* message);

// Says where the payload of a message goes: exactly `elements` floats at `to`.
struct PayloadTarget {
  float* to = nullptr;
  int64_t elements = 0;
};

// Decodes a WorkerMessage or ServerMessage: first all fields but the payload,
// then it asks `place(message)`, which returns StatusOr<PayloadTarget>, where
// the payload goes and copies it there. `place` is called once for each
// Initial, Contribution or Weights, and for no other message; an error of its
// own is returned. InvalidArgument for bytes that are no such message, a
// payload that is missing or not the last field, or one whose length is not the
// target's.
template <typename Message, typename Place>
absl::Status DecodeWithPayload(grpc::ByteBuffer* bytes, Message* message,
                               Place place);

// The floats of a payload in gRPC's own buffers, which it keeps alive.
// Immutable.
class ReceivedPayload {
 public:
  ReceivedPayload() = default;
  // The last `payload_bytes` of `bytes`.
  ReceivedPayload(const grpc::ByteBuffer& bytes, uint32_t payload_bytes);

  int64_t elements() const { return bytes_ / int64_t{sizeof(float)}; }
  // Copies elements [begin, begin + count).
  void Read(int64_t begin, int64_t count, float* to) const;

 private:
  struct Piece {
    const uint8_t* data = nullptr;
    int64_t end = 0;  // Where the piece after it begins, in bytes.
  };
  std::vector<grpc::Slice> slices_;
  std::vector<Piece> pieces_;
  int64_t bytes_ = 0;
};

// Like DecodeWithPayload, but leaves the payload where it is.
// `elements(message)` says how many floats it must have.
template <typename Message, typename Elements>
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, Message* message,
                           ReceivedPayload* payload, Elements elements);

// How many chunks in shared memory one message is to speak of, while others
// follow at once: at least so many that reading and writing them takes longer
// than the message, and that a server's `chunks` need no more than 32 messages
// in a step.
constexpr size_t WordsPerMessage(size_t chunks, int64_t chunk_elements) {
  constexpr int64_t kElements = 1 << 20;
  const size_t enough = (kElements + chunk_elements - 1) / chunk_elements;
  return enough > chunks / 32 ? enough : chunks / 32;
}

// ---- Implementation.

class PayloadReader {
 public:
  // `bytes` must outlive this object. `payload_kinds`: the envelope's fields
  // whose messages have a payload, as a set of bits.
  PayloadReader(grpc::ByteBuffer* bytes, uint32_t payload_kinds);
  ~PayloadReader();

  // Parses everything before the payload into `message`; sets has_payload().
  absl::Status ReadHeader(google::protobuf::MessageLite* message);
  bool has_payload() const { return has_payload_; }
  // Copies the payload and checks that nothing but it is left.
  absl::Status ReadPayload(PayloadTarget target);
  // The same, without copying.
  absl::Status TakePayload(int64_t elements, ReceivedPayload* payload);

 private:
  struct Stream;

  absl::Status CheckSize(int64_t elements) const;

  grpc::ByteBuffer* const bytes_;
  const uint32_t payload_kinds_;
  std::unique_ptr<Stream> stream_;
  bool has_payload_ = false;
  uint32_t payload_bytes_ = 0;
};

constexpr uint32_t PayloadKinds(const WorkerMessage*) {
  return 1u << WorkerMessage::kInitialFieldNumber |
         1u << WorkerMessage::kContributionFieldNumber;
}
constexpr uint32_t PayloadKinds(const ServerMessage*) {
  return 1u << ServerMessage::kWeightsFieldNumber;
}

template <typename Message, typename Place>
absl::Status DecodeWithPayload(grpc::ByteBuffer* bytes, Message* message,
                               Place place) {
  PayloadReader reader(bytes, PayloadKinds(message));
  absl::Status status = reader.ReadHeader(message);
  if (!status.ok() || !reader.has_payload()) return status;
  absl::StatusOr<PayloadTarget> target = place(*message);
  if (!target.ok()) return target.status();
  return reader.ReadPayload(*target);
}

template <typename Message, typename Elements>
absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, Message* message,
                           ReceivedPayload* payload, Elements elements) {
  PayloadReader reader(bytes, PayloadKinds(message));
  absl::Status status = reader.ReadHeader(message);
  if (!status.ok() || !reader.has_payload()) return status;
  absl::StatusOr<int64_t> count = elements(*message);
  if (!count.ok()) return count.status();
  return reader.TakePayload(*count, payload);
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TRANSPORT_CHUNK_CODEC_H_
