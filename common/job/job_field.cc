// SetField: sets one field of a job, found by its path.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <cctype>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/first_error.h"
#include "common/job/job.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;

// One part of a path: `name` or `name[index]`; index -1 if there is none.
struct Part {
  std::string name;
  int index = -1;
};

bool ParsePart(absl::string_view text, Part* part) {
  if (absl::ConsumeSuffix(&text, "]")) {
    const size_t bracket = text.find('[');
    if (bracket == absl::string_view::npos ||
        !absl::SimpleAtoi(text.substr(bracket + 1), &part->index) ||
        part->index < 0) {
      return false;
    }
    text = text.substr(0, bracket);
  }
  part->name = std::string(text);
  return !text.empty() && text.find('[') == absl::string_view::npos;
}

// A field of a message; `index` is -1 for a singular field or a whole list.
struct Place {
  Message* message;
  const FieldDescriptor* field;
  int index;
};

// Checks that `index` is within the list or one past its end.
absl::Status CheckIndex(const Place& place, absl::string_view path) {
  if (!place.field->is_repeated()) {
    return Error(path, place.field->name(), " is not a list; leave out [",
                 place.index, "]");
  }
  const int size =
      place.message->GetReflection()->FieldSize(*place.message, place.field);
  if (place.index > size) {
    return Error(path, "the list has ", Counted(size, "element"),
                 "; the next index to set is ", size);
  }
  return absl::OkStatus();
}

// Returns the message at `place`; creates it if it is absent.
absl::StatusOr<Message*> Enter(const Place& place, absl::string_view path) {
  const auto* reflection = place.message->GetReflection();
  if (!place.field->is_repeated()) {
    return reflection->MutableMessage(place.message, place.field);
  }
  if (place.index < 0) {
    return Error(path, place.field->name(), " is a list; write ",
                 place.field->name(), "[0]");
  }
  if (place.index == reflection->FieldSize(*place.message, place.field)) {
    return reflection->AddMessage(place.message, place.field);
  }
  return reflection->MutableRepeatedMessage(place.message, place.field,
                                            place.index);
}

// Follows `path` from `job` and creates the messages along it.
absl::StatusOr<Place> Find(JobSpec* job, const JobSpec& original,
                           absl::string_view path) {
  Place place{job, nullptr, -1};
  for (const absl::string_view text : absl::StrSplit(path, '.')) {
    if (place.field != nullptr) {
      if (place.field->message_type() == nullptr) {
        return Error(path, "no such field", DidYouMeanPath(original, path));
      }
      TRIBUTARY_ASSIGN_OR_RETURN(place.message, Enter(place, path));
    }
    Part part;
    if (!ParsePart(text, &part)) {
      return Error(path, "not a path; write it like model.mlp.hidden[0]");
    }
    place.field = place.message->GetDescriptor()->FindFieldByName(part.name);
    place.index = part.index;
    if (place.field == nullptr) {
      return Error(path, "no such field", DidYouMeanPath(original, path));
    }
    if (part.index >= 0) {
      TRIBUTARY_RETURN_IF_ERROR(CheckIndex(place, path));
    }
  }
  return place;
}

absl::Status Wrong(absl::string_view path, absl::string_view value,
                   absl::string_view expected) {
  return Error(path, "\"", absl::CHexEscape(value.substr(0, 100)), "\" is not ",
               expected);
}

absl::StatusOr<std::string> EnumLiteral(const EnumDescriptor* type,
                                        absl::string_view path,
                                        absl::string_view value) {
  std::vector<absl::string_view> names;
  for (int i = 0; i < type->value_count(); ++i) {
    const std::string& name = type->value(i)->name();
    if (type->value(i)->number() == 0) continue;
    if (absl::EqualsIgnoreCase(name, value)) return name;
    names.push_back(name);
  }
  return Wrong(path, value,
               absl::StrCat("one of ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<std::string> StringLiteral(absl::string_view path,
                                          absl::string_view value) {
  if (value.size() < 2 || value.front() != '"' || value.back() != '"') {
    return absl::StrCat("\"", absl::CHexEscape(value), "\"");
  }
  std::string plain;
  if (!absl::CUnescape(value.substr(1, value.size() - 2), &plain)) {
    return Wrong(path, value, "a quoted string");
  }
  return absl::StrCat("\"", absl::CHexEscape(plain), "\"");
}

template <typename Integer>
absl::StatusOr<std::string> IntegerLiteral(absl::string_view path,
                                           absl::string_view value,
                                           absl::string_view expected) {
  Integer number;
  if (!absl::SimpleAtoi(value, &number)) return Wrong(path, value, expected);
  return absl::StrCat(number);
}

// Converts the text of one element of `field` to protobuf's text format.
absl::StatusOr<std::string> Literal(const FieldDescriptor* field,
                                    absl::string_view path,
                                    absl::string_view value) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return IntegerLiteral<int32_t>(path, value, "a whole number (32 bits)");
    case FieldDescriptor::CPPTYPE_INT64:
      return IntegerLiteral<int64_t>(path, value, "a whole number");
    case FieldDescriptor::CPPTYPE_UINT64:
      return IntegerLiteral<uint64_t>(path, value, "a whole number, 0 or more");
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double number;
      if (!absl::SimpleAtod(value, &number)) {
        return Wrong(path, value, "a number");
      }
      return absl::StrFormat("%.17g", number);
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool truth;
      const std::string lower = absl::AsciiStrToLower(value);
      if (lower == "on") return "true";
      if (lower == "off") return "false";
      if (!absl::SimpleAtob(value, &truth)) {
        return Wrong(path, value, "true or false");
      }
      return truth ? "true" : "false";
    }
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumLiteral(field->enum_type(), path, value);
    case FieldDescriptor::CPPTYPE_STRING:
      return StringLiteral(path, value);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (absl::StartsWith(value, "{")) return std::string(value);
      return absl::StrCat("{", value, "}");
    default:
      return Error(path, "cannot be set this way");
  }
}

// Splits at commas outside of quotes and braces, after removing enclosing
// brackets.
std::vector<std::string> SplitList(absl::string_view value) {
  value = absl::StripAsciiWhitespace(value);
  if (absl::StartsWith(value, "[") && absl::EndsWith(value, "]")) {
    value = absl::StripAsciiWhitespace(value.substr(1, value.size() - 2));
    if (value.empty()) return {};
  }
  std::vector<std::string> elements(1);
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c == '"' && (i == 0 || value[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && c == '{') ++depth;
    if (!quoted && c == '}') --depth;
    if (c == ',' && !quoted && depth == 0) {
      elements.emplace_back();
    } else {
      elements.back() += c;
    }
  }
  for (std::string& element : elements) absl::StripAsciiWhitespace(&element);
  return elements;
}

// Sets the singular field, or appends to the list, at `place`.
absl::Status Append(const Place& place, absl::string_view path,
                    absl::string_view value) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string literal,
                             Literal(place.field, path, value));
  FirstError errors(literal);
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(20);
  if (!parser.ParseFieldValueFromString(literal, place.field, place.message)) {
    return Error(path,
                 errors.what().empty() ? "not understood" : errors.what());
  }
  return absl::OkStatus();
}

absl::Status Assign(const Place& place, absl::string_view path,
                    absl::string_view value) {
  const auto* reflection = place.message->GetReflection();
  if (place.index >= 0) {
    TRIBUTARY_RETURN_IF_ERROR(Append(place, path, value));
    const int last = reflection->FieldSize(*place.message, place.field) - 1;
    if (place.index < last) {
      reflection->SwapElements(place.message, place.field, place.index, last);
      reflection->RemoveLast(place.message, place.field);
    }
    return absl::OkStatus();
  }
  if (place.field->real_containing_oneof() != nullptr) {
    reflection->ClearOneof(place.message, place.field->real_containing_oneof());
  }
  reflection->ClearField(place.message, place.field);
  if (!place.field->is_repeated()) return Append(place, path, value);
  for (const std::string& element : SplitList(value)) {
    TRIBUTARY_RETURN_IF_ERROR(Append(place, path, element));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetField(JobSpec* job, absl::string_view path_and_value) {
  const size_t equals = path_and_value.find('=');
  if (equals == absl::string_view::npos || equals == 0) {
    return Error(path_and_value, "write path=value, like steps=100");
  }
  const absl::string_view path =
      absl::StripAsciiWhitespace(path_and_value.substr(0, equals));
  const absl::string_view value =
      absl::StripAsciiWhitespace(path_and_value.substr(equals + 1));
  JobSpec changed = *job;
  TRIBUTARY_ASSIGN_OR_RETURN(const Place place, Find(&changed, *job, path));
  TRIBUTARY_RETURN_IF_ERROR(Assign(place, path, value));
  *job = std::move(changed);
  return absl::OkStatus();
}

}  // namespace tributary
