#include "common/job/first_error.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/text/nearest.h"
#include "proto/job.pb.h"

namespace tributary {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::DescriptorPool;
using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::FieldDescriptor;

// Returns the text between the first pair of quotes at or after `from`.
std::string Quoted(absl::string_view text, size_t from) {
  const size_t begin = text.find('"', from);
  if (begin == absl::string_view::npos) return "";
  const size_t end = text.find('"', begin + 1);
  if (end == absl::string_view::npos) return "";
  return std::string(text.substr(begin + 1, end - begin - 1));
}

// Returns the first enum field named `name` in `type` or the messages within
// it.
const EnumDescriptor* FindEnum(const Descriptor* type,
                               const std::string& name) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    if (field->name() == name && field->enum_type() != nullptr) {
      return field->enum_type();
    }
    if (field->message_type() == nullptr) continue;
    const EnumDescriptor* inner = FindEnum(field->message_type(), name);
    if (inner != nullptr) return inner;
  }
  return nullptr;
}

// Returns the offset of line and column, counted from 0, in `text`. A tab
// advances to the next multiple of eight columns, as in protobuf's tokenizer.
size_t OffsetOf(absl::string_view text, int line, int column) {
  size_t offset = 0;
  for (; line > 0 && offset < text.size(); ++offset) {
    if (text[offset] == '\n') --line;
  }
  for (int at = 0; at < column && offset < text.size(); ++offset) {
    at += text[offset] == '\t' ? 8 - at % 8 : 1;
  }
  return offset;
}

// Returns ":line:column", counted from 1, of `offset`.
std::string PlaceOf(absl::string_view text, size_t offset) {
  const absl::string_view before = text.substr(0, offset);
  const size_t newline = before.rfind('\n');
  const size_t column =
      newline == absl::string_view::npos ? offset : offset - newline - 1;
  return absl::StrCat(":", std::count(before.begin(), before.end(), '\n') + 1,
                      ":", column + 1);
}

// Returns the offset of the field's name. The parser reports an error of a
// field after it has read the name.
size_t BackToName(absl::string_view text, size_t offset,
                  const std::string& message) {
  std::string name;
  const size_t unknown = message.find("has no field named");
  if (unknown != std::string::npos) {
    name = Quoted(message, unknown);
  } else if (message.find(" is specified ") != std::string::npos) {
    name = Quoted(message, 0);
  }
  if (name.empty() || offset < name.size()) return offset;
  const size_t found = text.rfind(name, offset - name.size());
  return found == absl::string_view::npos ? offset : found;
}

// Adds the valid alternatives to the parser's message. The parser reports names
// only within its text, so this function parses the text; it returns an unknown
// text unchanged.
std::string Explain(const std::string& message) {
  const size_t unknown = message.find("has no field named");
  if (unknown != std::string::npos) {
    const std::string name = Quoted(message, unknown);
    const Descriptor* type =
        DescriptorPool::generated_pool()->FindMessageTypeByName(
            Quoted(message, 0));
    if (type == nullptr) return message;
    std::vector<std::string> names;
    for (int i = 0; i < type->field_count(); ++i) {
      names.push_back(type->field(i)->name());
    }
    return absl::StrCat(type->name(), " has no field \"", name, "\"",
                        DidYouMean(name, names));
  }
  const size_t field = message.find("\" for field \"");
  if (message.rfind("Unknown enumeration value", 0) == 0 &&
      field != std::string::npos) {
    const EnumDescriptor* type =
        FindEnum(JobSpec::descriptor(), Quoted(message, field + 1));
    if (type == nullptr) return message;
    std::vector<absl::string_view> names;
    for (int i = 0; i < type->value_count(); ++i) {
      if (type->value(i)->number() != 0) {
        names.push_back(type->value(i)->name());
      }
    }
    return absl::StrCat(message, " One of ", absl::StrJoin(names, ", "),
                        " is expected.");
  }
  return message;
}

// Returns true if a line ends after a key and a colon, and the next line does
// not open a block. Protobuf text has a value there.
bool LooksLikeYaml(absl::string_view text) {
  if (absl::StartsWith(text, "---")) return true;
  bool after_key = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    if (after_key && line[0] != '{' && line[0] != '<' && line[0] != '[') {
      return true;
    }
    after_key = line.back() == ':' &&
                std::all_of(line.begin(), line.end() - 1, [](char c) {
                  return absl::ascii_isalnum(c) || c == '_';
                });
  }
  return false;
}

}  // namespace

std::string FormatHint(absl::string_view text) {
  const absl::string_view stripped = absl::StripAsciiWhitespace(text);
  const char* format = "";
  if (absl::StartsWith(stripped, "[")) {
    format = "JSON";
  } else if (LooksLikeYaml(stripped)) {
    format = "YAML";
  } else {
    return "";
  }
  return absl::StrCat(
      "; this looks like ", format,
      ", but a job file is protobuf text, as in: model { gpt { layers: 2 } }, or "
      "a JSON object");
}

void FirstError::AddError(int line, int column, const std::string& message) {
  if (!message_.empty()) return;
  what_ = Explain(message);
  message_ = absl::StrCat(": ", what_);
  if (line < 0) return;
  const size_t offset =
      BackToName(text_, OffsetOf(text_, line, column), message);
  message_ = absl::StrCat(PlaceOf(text_, offset), message_);
}

}  // namespace tributary
