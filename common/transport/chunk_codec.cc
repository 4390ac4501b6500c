#include "common/transport/chunk_codec.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
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

// Headers hold a few numbers; a longer unknown field is no honest peer's.
constexpr uint32_t kMaxUnknownFieldBytes = 4096;

struct Inner {
  uint32_t tag;
  const MessageLite* message;
};

Inner InnerOf(const WorkerMessage& message) {
  if (message.has_initial()) {
    return {Tag(WorkerMessage::kInitialFieldNumber), &message.initial()};
  }
  return {Tag(WorkerMessage::kContributionFieldNumber),
          &message.contribution()};
}

Inner InnerOf(const ServerMessage& message) {
  return {Tag(ServerMessage::kWeightsFieldNumber), &message.weights()};
}

grpc::ByteBuffer EncodeAround(Inner inner, const float* payload,
                              int64_t elements,
                              std::shared_ptr<const void> owner) {
  const uint32_t payload_bytes =
      static_cast<uint32_t>(elements * sizeof(float));
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
  auto* held = new std::shared_ptr<const void>(std::move(owner));
  grpc::Slice slices[2] = {
      grpc::Slice(front),
      grpc::Slice(
          const_cast<float*>(payload), payload_bytes,
          [](void* user) {
            delete static_cast<std::shared_ptr<const void>*>(user);
          },
          held)};
  return grpc::ByteBuffer(slices, 2);
}

absl::Status NotAMessage(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(
      "malformed message: ", what, " (is the peer a Tributary process?)"));
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

}  // namespace

grpc::ByteBuffer EncodeWithPayload(const WorkerMessage& message,
                                   const float* payload, int64_t elements,
                                   std::shared_ptr<const void> owner) {
  return EncodeAround(InnerOf(message), payload, elements, std::move(owner));
}

grpc::ByteBuffer EncodeWithPayload(const ServerMessage& message,
                                   const float* payload, int64_t elements,
                                   std::shared_ptr<const void> owner) {
  return EncodeAround(InnerOf(message), payload, elements, std::move(owner));
}

grpc::ByteBuffer Encode(const MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status Decode(grpc::ByteBuffer* bytes, MessageLite* message) {
  grpc::ProtoBufferReader reader(bytes);
  if (!reader.status().ok() || !message->ParseFromZeroCopyStream(&reader)) {
    return NotAMessage("not the expected protobuf message");
  }
  return absl::OkStatus();
}

struct PayloadReader::Stream {
  explicit Stream(grpc::ByteBuffer* bytes) : reader(bytes), in(&reader) {}
  grpc::ProtoBufferReader reader;
  CodedInputStream in;
};

PayloadReader::PayloadReader(grpc::ByteBuffer* bytes, uint32_t payload_kinds)
    : bytes_(bytes),
      payload_kinds_(payload_kinds),
      stream_(std::make_unique<Stream>(bytes)) {}

PayloadReader::~PayloadReader() = default;

absl::Status PayloadReader::ReadHeader(MessageLite* message) {
  if (!stream_->reader.status().ok()) return NotAMessage("empty");
  CodedInputStream& in = stream_->in;
  const uint32_t outer_tag = in.ReadTag();
  const uint32_t kind = outer_tag >> 3;
  if (kind == 0) return NotAMessage("no envelope");
  if (kind < 32 && (payload_kinds_ >> kind & 1) == 0) {
    stream_.reset();
    return Decode(bytes_, message);
  }
  uint32_t inner_bytes = 0;
  if ((outer_tag & 7) != kLengthDelimited || !in.ReadVarint32(&inner_bytes)) {
    return NotAMessage("no envelope");
  }
  const int begin = in.CurrentPosition();
  std::string fields;
  {
    StringOutputStream stream(&fields);
    CodedOutputStream out(&stream);
    while (!has_payload_) {
      const uint32_t tag = in.ReadTag();
      if (tag == kPayloadTag) {
        if (!in.ReadVarint32(&payload_bytes_)) return NotAMessage("cut short");
        has_payload_ = true;
      } else if (tag == 0 || !CopyField(tag, &in, &out)) {
        return NotAMessage("no payload");
      }
    }
  }
  const uint64_t header_bytes = in.CurrentPosition() - begin;
  if (header_bytes + payload_bytes_ != inner_bytes) {
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

absl::Status PayloadReader::CheckSize(int64_t elements) const {
  const uint64_t wanted = elements * sizeof(float);
  if (payload_bytes_ == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("payload of ", payload_bytes_, " bytes, expected ", wanted));
}

absl::Status PayloadReader::ReadPayload(PayloadTarget target) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSize(target.elements));
  if (!stream_->in.ReadRaw(target.to, static_cast<int>(payload_bytes_))) {
    return NotAMessage("payload cut short");
  }
  if (stream_->in.ReadTag() != 0) return NotAMessage("trailing bytes");
  return absl::OkStatus();
}

absl::Status PayloadReader::TakePayload(int64_t elements,
                                        ReceivedPayload* payload) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSize(elements));
  const uint64_t end =
      static_cast<uint64_t>(stream_->in.CurrentPosition()) + payload_bytes_;
  if (end > bytes_->Length()) return NotAMessage("payload cut short");
  if (end < bytes_->Length()) return NotAMessage("trailing bytes");
  *payload = ReceivedPayload(*bytes_, payload_bytes_);
  return absl::OkStatus();
}

ReceivedPayload::ReceivedPayload(const grpc::ByteBuffer& bytes,
                                 uint32_t payload_bytes)
    : bytes_(payload_bytes) {
  if (!bytes.Dump(&slices_).ok()) slices_.clear();
  int64_t header = static_cast<int64_t>(bytes.Length()) - bytes_;
  int64_t end = 0;
  for (const grpc::Slice& slice : slices_) {
    const int64_t skipped =
        std::min(header, static_cast<int64_t>(slice.size()));
    header -= skipped;
    end += static_cast<int64_t>(slice.size()) - skipped;
    pieces_.push_back({slice.begin() + skipped, end});
  }
}

void ReceivedPayload::Read(int64_t begin, int64_t count, float* to) const {
  int64_t from = begin * int64_t{sizeof(float)};
  const int64_t end = from + count * int64_t{sizeof(float)};
  auto piece = std::upper_bound(
      pieces_.begin(), pieces_.end(), from,
      [](int64_t position, const Piece& p) { return position < p.end; });
  char* out = reinterpret_cast<char*>(to);
  for (; from < end; ++piece) {
    const int64_t piece_begin =
        piece == pieces_.begin() ? 0 : std::prev(piece)->end;
    const int64_t bytes = std::min(end, piece->end) - from;
    std::memcpy(out, piece->data + (from - piece_begin), bytes);
    out += bytes;
    from += bytes;
  }
}

}  // namespace tributary
