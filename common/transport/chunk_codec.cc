#include "common/transport/chunk_codec.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/limits.h"
#include "common/base/status_macros.h"
#include "common/transport/message_check.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace tributary {
namespace {

using google::protobuf::MessageLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

constexpr uint32_t kLengthDelimited = 2;
constexpr uint32_t Tag(uint32_t field) { return field << 3 | kLengthDelimited; }
constexpr uint32_t kPayloadTag = Tag(15);
static_assert(Initial::kPayloadFieldNumber == 15);
static_assert(Contribution::kPayloadFieldNumber == 15);
static_assert(Weights::kPayloadFieldNumber == 15);
static_assert(RowsRequest::kPayloadFieldNumber == 15);
static_assert(Rows::kPayloadFieldNumber == 15);
static_assert(RowContribution::kPayloadFieldNumber == 15);
static_assert(JournalPart::kPayloadFieldNumber == 15);
static_assert(StageTransfer::kPayloadFieldNumber == 15);

// Largest size of an unknown field. Headers hold a few numbers, so a longer
// field is malformed.
constexpr uint32_t kMaxUnknownFieldBytes = 4096;

struct Inner {
  uint32_t tag;
  const MessageLite* message;
};

Inner InnerOf(const WorkerMessage& message) {
  switch (message.message_case()) {
    case WorkerMessage::kInitial:
      return {Tag(WorkerMessage::kInitialFieldNumber), &message.initial()};
    case WorkerMessage::kRowsRequest:
      return {Tag(WorkerMessage::kRowsRequestFieldNumber),
              &message.rows_request()};
    case WorkerMessage::kRowContribution:
      return {Tag(WorkerMessage::kRowContributionFieldNumber),
              &message.row_contribution()};
    default:
      return {Tag(WorkerMessage::kContributionFieldNumber),
              &message.contribution()};
  }
}

Inner InnerOf(const ServerMessage& message) {
  if (message.has_rows()) {
    return {Tag(ServerMessage::kRowsFieldNumber), &message.rows()};
  }
  return {Tag(ServerMessage::kWeightsFieldNumber), &message.weights()};
}

Inner InnerOf(const JournalMessage& message) {
  if (message.has_rows()) {
    return {Tag(JournalMessage::kRowsFieldNumber), &message.rows()};
  }
  return {Tag(JournalMessage::kPartFieldNumber), &message.part()};
}

Inner InnerOf(const StageMessage& message) {
  return {Tag(StageMessage::kTransferFieldNumber), &message.transfer()};
}

grpc::ByteBuffer EncodeAround(Inner inner, OutgoingPayload payload) {
  const uint32_t payload_bytes = static_cast<uint32_t>(payload.bytes);
  const uint32_t header_bytes =
      static_cast<uint32_t>(inner.message->ByteSizeLong());
  const uint32_t inner_bytes =
      header_bytes + CodedOutputStream::VarintSize32(kPayloadTag) +
      CodedOutputStream::VarintSize32(payload_bytes) + payload_bytes;
  std::string front;
  {
    StringOutputStream stream(&front);
    CodedOutputStream out(&stream);
    out.WriteTag(inner.tag);
    out.WriteVarint32(inner_bytes);
    inner.message->SerializeToCodedStream(&out);
    out.WriteTag(kPayloadTag);
    out.WriteVarint32(payload_bytes);
  }
  if (payload_bytes == 0) {
    const grpc::Slice slice(front);
    return grpc::ByteBuffer(&slice, 1);
  }
  auto* held = new std::shared_ptr<const void>(std::move(payload.owner));
  grpc::Slice slices[2] = {
      grpc::Slice(front),
      grpc::Slice(
          const_cast<void*>(payload.data), payload_bytes,
          [](void* user) {
            delete static_cast<std::shared_ptr<const void>*>(user);
          },
          held)};
  return grpc::ByteBuffer(slices, 2);
}

absl::Status NotAMessage(const char* what) {
  return absl::InvalidArgumentError(
      absl::StrCat("malformed message: ", what,
                   ", expected one that a .proto file in proto/ defines"));
}

// Copies one field other than the payload from `in` to `out`.
bool CopyField(uint32_t tag, CodedInputStream* in, CodedOutputStream* out) {
  out->WriteTag(tag);
  switch (tag & 7) {
    case 0: {
      uint64_t value;
      if (!in->ReadVarint64(&value)) return false;
      out->WriteVarint64(value);
      return true;
    }
    case 1: {
      uint64_t value;
      if (!in->ReadLittleEndian64(&value)) return false;
      out->WriteLittleEndian64(value);
      return true;
    }
    case kLengthDelimited: {
      uint32_t length;
      std::string value;
      if (!in->ReadVarint32(&length) || length > kMaxUnknownFieldBytes ||
          !in->ReadString(&value, length)) {
        return false;
      }
      out->WriteVarint32(length);
      out->WriteString(value);
      return true;
    }
    case 5: {
      uint32_t value;
      if (!in->ReadLittleEndian32(&value)) return false;
      out->WriteLittleEndian32(value);
      return true;
    }
    default:
      return false;
  }
}

// Returns the set of the envelope's fields, as bits, whose messages have a
// payload.
constexpr uint32_t PayloadKinds(const WorkerMessage*) {
  return 1u << WorkerMessage::kInitialFieldNumber |
         1u << WorkerMessage::kContributionFieldNumber |
         1u << WorkerMessage::kRowsRequestFieldNumber |
         1u << WorkerMessage::kRowContributionFieldNumber;
}
constexpr uint32_t PayloadKinds(const ServerMessage*) {
  return 1u << ServerMessage::kWeightsFieldNumber |
         1u << ServerMessage::kRowsFieldNumber;
}
constexpr uint32_t PayloadKinds(const JournalMessage*) {
  return 1u << JournalMessage::kPartFieldNumber |
         1u << JournalMessage::kRowsFieldNumber;
}
constexpr uint32_t PayloadKinds(const StageMessage*) {
  return 1u << StageMessage::kTransferFieldNumber;
}

// Parses the fields before the payload of an inner message into `message`. The
// envelope's tag has been read already.
absl::Status ReadHeader(uint32_t outer_tag, CodedInputStream* in,
                        MessageLite* message, uint32_t* payload_bytes) {
  uint32_t inner_bytes = 0;
  if ((outer_tag & 7) != kLengthDelimited || !in->ReadVarint32(&inner_bytes)) {
    return NotAMessage("no envelope");
  }
  const int begin = in->CurrentPosition();
  std::string fields;
  {
    StringOutputStream stream(&fields);
    CodedOutputStream out(&stream);
    uint32_t tag;
    while ((tag = in->ReadTag()) != kPayloadTag) {
      if (tag == 0 || !CopyField(tag, in, &out)) {
        return NotAMessage("no payload");
      }
    }
    if (!in->ReadVarint32(payload_bytes)) return NotAMessage("cut short");
  }
  const uint64_t header_bytes = in->CurrentPosition() - begin;
  if (header_bytes + *payload_bytes != inner_bytes) {
    return NotAMessage("payload is not the last field");
  }
  std::string envelope;
  {
    StringOutputStream stream(&envelope);
    CodedOutputStream out(&stream);
    out.WriteTag(outer_tag);
    out.WriteVarint32(static_cast<uint32_t>(fields.size()));
    out.WriteString(fields);
  }
  if (!message->ParseFromString(envelope)) return NotAMessage("bad header");
  return absl::OkStatus();
}

absl::Status DecodeAround(grpc::ByteBuffer* bytes, uint32_t payload_kinds,
                          google::protobuf::Message* message,
                          ReceivedPayload* payload) {
  uint32_t payload_bytes = 0;
  uint64_t end = 0;
  bool has_payload = true;
  {
    grpc::ProtoBufferReader reader(bytes);
    if (!reader.status().ok()) return NotAMessage("empty");
    CodedInputStream in(&reader);
    const uint32_t tag = in.ReadTag();
    const uint32_t kind = tag >> 3;
    if (kind == 0) return NotAMessage("no envelope");
    has_payload = kind >= 32 || ((payload_kinds >> kind & 1) != 0 &&
                                 (tag & 7) == kLengthDelimited);
    if (has_payload) {
      TRIBUTARY_RETURN_IF_ERROR(ReadHeader(tag, &in, message, &payload_bytes));
      end = static_cast<uint64_t>(in.CurrentPosition()) + payload_bytes;
    }
  }
  if (!has_payload) return Decode(bytes, message);
  if (end > bytes->Length()) return NotAMessage("payload cut short");
  if (end < bytes->Length()) return NotAMessage("trailing bytes");
  *payload = PayloadAtEnd(*bytes, payload_bytes);
  return absl::OkStatus();
}

}  // namespace

grpc::ByteBuffer Encode(const WorkerMessage& message, OutgoingPayload payload) {
  return EncodeAround(InnerOf(message), std::move(payload));
}

grpc::ByteBuffer Encode(const ServerMessage& message, OutgoingPayload payload) {
  return EncodeAround(InnerOf(message), std::move(payload));
}

grpc::ByteBuffer Encode(const JournalMessage& message,
                        OutgoingPayload payload) {
  return EncodeAround(InnerOf(message), std::move(payload));
}

grpc::ByteBuffer Encode(const StageMessage& message, OutgoingPayload payload) {
  return EncodeAround(InnerOf(message), std::move(payload));
}

grpc::ByteBuffer Encode(const MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status Decode(grpc::ByteBuffer* bytes,
                    google::protobuf::Message* message) {
  {
    grpc::ProtoBufferReader reader(bytes);
    if (!reader.status().ok()) return NotAMessage("empty");
    TRIBUTARY_RETURN_IF_ERROR(
        CheckMessage(*message->GetDescriptor(), kDefaultLimits, &reader));
  }
  grpc::ProtoBufferReader reader(bytes);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    return NotAMessage("not the expected protobuf message");
  }
  return absl::OkStatus();
}

ReceivedPayload PayloadAtEnd(const grpc::ByteBuffer& bytes,
                             int64_t payload_bytes) {
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (!bytes.Dump(slices.get()).ok()) slices->clear();
  std::vector<ReceivedPayload::Piece> pieces;
  pieces.reserve(slices->size());
  int64_t header = static_cast<int64_t>(bytes.Length()) - payload_bytes;
  int64_t end = 0;
  for (const grpc::Slice& slice : *slices) {
    const int64_t skipped =
        std::min(header, static_cast<int64_t>(slice.size()));
    header -= skipped;
    end += static_cast<int64_t>(slice.size()) - skipped;
    pieces.push_back(
        {reinterpret_cast<const char*>(slice.begin()) + skipped, end});
  }
  return ReceivedPayload(std::move(pieces), slices);
}

absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, WorkerMessage* message,
                           ReceivedPayload* payload) {
  return DecodeAround(bytes, PayloadKinds(message), message, payload);
}

absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, ServerMessage* message,
                           ReceivedPayload* payload) {
  return DecodeAround(bytes, PayloadKinds(message), message, payload);
}

absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, JournalMessage* message,
                           ReceivedPayload* payload) {
  return DecodeAround(bytes, PayloadKinds(message), message, payload);
}

absl::Status DecodeInPlace(grpc::ByteBuffer* bytes, StageMessage* message,
                           ReceivedPayload* payload) {
  return DecodeAround(bytes, PayloadKinds(message), message, payload);
}

}  // namespace tributary
