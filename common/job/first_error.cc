#include "common/job/first_error.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/text/nearest.h"
#include "proto/job.pb.h"

namespace tributary {
namespace {

using ::google::protobuf::Descriptor;
using ::google::protobuf::DescriptorPool;
using ::google::protobuf::EnumDescriptor;
using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::OneofDescriptor;

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

// Added to the distance of a path through a member of a oneof that the job does
// not have, if the typed path omits parts.
constexpr int kOtherMemberPenalty = 4;

struct KnownPath {
  std::string path;
  int penalty;
};

// Appends the paths of all fields of `type`. `message` is the job's value of
// that type, or null.
void ListPaths(const Descriptor* type, const Message* message,
               const std::string& prefix, int penalty,
               std::vector<KnownPath>* paths) {
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const std::string path = absl::StrCat(prefix, field->name());
    const OneofDescriptor* oneof = field->real_containing_oneof();
    const bool singular = message != nullptr && !field->is_repeated();
    const bool present =
        singular && message->GetReflection()->HasField(*message, field);
    const bool replaced = !present && oneof != nullptr && message != nullptr &&
                          message->GetReflection()->HasOneof(*message, oneof);
    const int total = penalty + (replaced ? kOtherMemberPenalty : 0);
    paths->push_back({path, total});
    if (field->message_type() == nullptr) continue;
    const Message* inner =
        present && field->message_type() != nullptr
            ? &message->GetReflection()->GetMessage(*message, field)
            : nullptr;
    ListPaths(field->message_type(), inner,
              absl::StrCat(path, field->is_repeated() ? "[0]." : "."), total,
              paths);
  }
}

int CountParts(absl::string_view path) {
  return 1 + static_cast<int>(std::count(path.begin(), path.end(), '.'));
}

// Returns the last `count` parts of a path.
absl::string_view Tail(absl::string_view path, int count) {
  size_t begin = path.size();
  while (count-- > 0 && begin != 0) {
    begin = path.rfind('.', begin - 1);
    if (begin == absl::string_view::npos) return path;
  }
  return begin < path.size() ? path.substr(begin + 1) : path;
}

// As NameDistance, for the last part of two paths that are otherwise equal.
int PathDistance(absl::string_view typed, absl::string_view known) {
  const size_t last = typed.size() - Tail(typed, 1).size();
  return typed.substr(0, last) == known.substr(0, last)
             ? NameDistance(typed.substr(last), known.substr(last))
             : EditDistance(typed, known);
}

// Returns the field with this path, in which a list may have an index, or null.
const FieldDescriptor* FindPath(absl::string_view path) {
  const Descriptor* type = JobSpec::descriptor();
  const FieldDescriptor* field = nullptr;
  for (absl::string_view part : absl::StrSplit(path, '.')) {
    if (type == nullptr) return nullptr;
    field = type->FindFieldByName(std::string(part.substr(0, part.find('['))));
    if (field == nullptr) return nullptr;
    type = field->message_type();
  }
  return field;
}

// Returns what is expected in JSON as the value of the field, where `value` is
// not.
std::string Expected(const FieldDescriptor& field, absl::string_view value) {
  std::vector<std::string> names;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return "a whole number";
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number, 0 or more";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        if (field.enum_type()->value(i)->number() != 0) {
          names.push_back(field.enum_type()->value(i)->name());
        }
      }
      return absl::StrCat("one of ", absl::StrJoin(names, ", "));
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      for (int i = 0; i < field.message_type()->field_count(); ++i) {
        names.push_back(field.message_type()->field(i)->name());
      }
      const std::string near = Nearest(
          absl::StripSuffix(absl::StripPrefix(value, "\""), "\""), names);
      return absl::StrCat("an object; write {\"",
                          near.empty() && !names.empty() ? names[0] : near,
                          "\": ...}");
    }
    default:
      return "a text";
  }
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
  return absl::StrCat("; this looks like ", format,
                      ", but a job file is protobuf text, as in: model { gpt { "
                      "layers: 2 } }, or "
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

std::string DidYouMeanPath(const JobSpec& job, absl::string_view typed) {
  std::vector<KnownPath> paths;
  ListPaths(JobSpec::descriptor(), &job, "", 0, &paths);
  const int parts = CountParts(typed);
  const KnownPath* best = nullptr;
  int best_score = 0;
  if (typed.size() > 200) return "";
  for (const KnownPath& known : paths) {
    const int distance =
        std::min(PathDistance(typed, known.path),
                 1 + PathDistance(typed, Tail(known.path, parts)));
    // A short form has two characters.
    if (static_cast<size_t>(distance) * 2 >
        std::max<size_t>(typed.size(), 3) + 1) {
      continue;
    }
    const bool whole = CountParts(known.path) == parts;
    const int score = distance + (whole ? 0 : known.penalty);
    if (best == nullptr || score < best_score) {
      best = &known;
      best_score = score;
    }
  }
  return best == nullptr ? ""
                         : absl::StrCat("; did you mean ", best->path, "?");
}

std::string ExplainJsonError(const JobSpec& job, const std::string& message) {
  // "(PATH) NAME: Cannot find field", where "(PATH) " is missing at the top.
  const size_t unknown = message.find(": Cannot find field");
  if (unknown != std::string::npos) {
    const std::string path = absl::StrReplaceAll(message.substr(0, unknown),
                                                 {{"(", ""}, {") ", "."}});
    return absl::StrCat(path, ": no such field", DidYouMeanPath(job, path));
  }
  // "(PATH): invalid value VALUE for type TYPE".
  constexpr absl::string_view kInvalid = "): invalid value ";
  const size_t invalid = message.find(kInvalid.data());
  const size_t type = message.rfind(" for type ");
  if (message[0] != '(' || invalid == std::string::npos ||
      type == std::string::npos) {
    return message;
  }
  const std::string path = message.substr(1, invalid - 1);
  const FieldDescriptor* field = FindPath(path);
  // For a second member of a oneof, the value is a sentence.
  if (field == nullptr || absl::EndsWith(message, " for type oneof")) {
    return message;
  }
  const size_t begin = invalid + kInvalid.size();
  const std::string value = message.substr(begin, type - begin);
  return absl::StrCat(path, ": ", value, " is not ", Expected(*field, value));
}

}  // namespace tributary
