#include "common/transport/message_check.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

namespace tributary {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

class Checker {
 public:
  Checker(const Limits& limits, CodedInputStream* in)
      : limits_(limits), in_(in) {}

  absl::Status Check(const Descriptor& type, int depth) {
    while (const uint32_t tag = in_->ReadTag()) {
      const FieldDescriptor* field =
          type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      absl::Status status;
      if (WireFormatLite::GetTagWireType(tag) ==
          WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
        status = CheckDelimited(type, field, depth);
      } else if (!SkipNumber(tag)) {
        status = Malformed(type);
      }
      if (!status.ok()) return status;
    }
    // A tag of 0 marks the end only at the end of the bytes.
    return in_->ConsumedEntireMessage() ? absl::OkStatus() : Malformed(type);
  }

 private:
  static absl::Status TooLarge(const FieldDescriptor& field, const char* more,
                               int limit, const char* what) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a message with ", more, limit, what, ", at ",
                     field.containing_type()->name(), ".", field.name()));
  }
  static absl::Status Malformed(const Descriptor& type) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed message: the bytes are not a ", type.name(),
                     " of ", type.file()->name()));
  }

  bool SkipNumber(uint32_t tag) {
    uint64_t number = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        return in_->ReadVarint64(&number);
      case WireFormatLite::WIRETYPE_FIXED64:
        return in_->Skip(8);
      case WireFormatLite::WIRETYPE_FIXED32:
        return in_->Skip(4);
      default:
        return false;
    }
  }

  absl::Status CheckDelimited(const Descriptor& type,
                              const FieldDescriptor* field, int depth) {
    uint32_t bytes = 0;
    if (!in_->ReadVarint32(&bytes) ||
        bytes > static_cast<uint32_t>(limits_.message_bytes)) {
      return Malformed(type);
    }
    if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
      return CheckSubmessage(*field, static_cast<int>(bytes), depth);
    }
    // Packed numbers need at most a small multiple of their encoded size in
    // memory.
    const bool numbers = field != nullptr && field->is_packable();
    if (!numbers && bytes > static_cast<uint32_t>(limits_.text_bytes)) {
      return absl::ResourceExhaustedError(absl::StrCat(
          type.name(), ".", field == nullptr ? "(unknown)" : field->name(),
          " has ", bytes, " bytes, at most ", limits_.text_bytes,
          " are allowed (Limits.text_bytes)"));
    }
    return in_->Skip(static_cast<int>(bytes)) ? absl::OkStatus()
                                              : Malformed(type);
  }

  absl::Status CheckSubmessage(const FieldDescriptor& field, int bytes,
                               int depth) {
    if (++submessages_ > limits_.submessages) {
      return TooLarge(field, "more than ", limits_.submessages,
                      " nested messages (Limits.submessages)");
    }
    if (depth >= limits_.nesting_depth) {
      return TooLarge(field, "messages nested more than ",
                      limits_.nesting_depth,
                      " levels deep (Limits.nesting_depth)");
    }
    const CodedInputStream::Limit outer = in_->PushLimit(bytes);
    absl::Status status = Check(*field.message_type(), depth + 1);
    // The bytes may end before the submessage does.
    if (status.ok() && in_->BytesUntilLimit() > 0) {
      status = Malformed(*field.message_type());
    }
    in_->PopLimit(outer);
    return status;
  }

  const Limits& limits_;
  CodedInputStream* const in_;
  int submessages_ = 0;
};

}  // namespace

absl::Status CheckMessage(const Descriptor& type, const Limits& limits,
                          google::protobuf::io::ZeroCopyInputStream* input) {
  CodedInputStream in(input);
  return Checker(limits, &in).Check(type, /*depth=*/0);
}

}  // namespace tributary
