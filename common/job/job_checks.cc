#include "common/job/job_checks.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/field_checks.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;

absl::Status ValidateValue(const Message& message, const FieldDescriptor* field,
                           const std::string& path) {
  const auto* reflection = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE &&
      !std::isfinite(reflection->GetDouble(message, field))) {
    return Error(path, "must be a finite number");
  }
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM &&
      reflection->GetEnumValue(message, field) == 0) {
    return Error(path, reflection->GetEnum(message, field)->name(),
                 " is not a choice; leave the field out for the default");
  }
  return absl::OkStatus();
}

absl::Status ValidateText(absl::string_view text, const std::string& path) {
  if (std::any_of(text.begin(), text.end(), absl::ascii_iscntrl)) {
    return Error(path, "contains a control character");
  }
  return absl::OkStatus();
}

// Returns true for texts that separate columns or values, such as a tab. They
// have checks of their own.
bool IsSeparator(const FieldDescriptor& field) {
  return field.name() == "delimiter" || field.name() == "separator";
}

bool BelongsInName(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.';
}

}  // namespace

absl::Status ValidateValues(const Message& message, const std::string& prefix) {
  const auto* reflection = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string path = absl::StrCat(prefix, field->name());
    const bool list = field->is_repeated();
    const int size = list ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      const std::string place = list ? absl::StrCat(path, "[", i, "]") : path;
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        TRIBUTARY_RETURN_IF_ERROR(ValidateValues(
            list ? reflection->GetRepeatedMessage(message, field, i)
                 : reflection->GetMessage(message, field),
            absl::StrCat(place, ".")));
      } else if (IsSeparator(*field)) {
        continue;
      } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        TRIBUTARY_RETURN_IF_ERROR(
            ValidateText(list ? reflection->GetRepeatedString(message, field, i)
                              : reflection->GetString(message, field),
                         place));
      } else if (!list) {
        TRIBUTARY_RETURN_IF_ERROR(ValidateValue(message, field, place));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateExternalName(absl::string_view path,
                                  const std::string& name) {
  if (name.empty()) return Required(path);
  if (name.size() > kMaxNameBytes) {
    return Error(path, "has ", name.size(), " bytes, at most ", kMaxNameBytes,
                 " are allowed");
  }
  if (!std::all_of(name.begin(), name.end(), BelongsInName) || name[0] == '.' ||
      name[0] == '-') {
    return Error(path, "\"", name,
                 "\" is not a name of letters, digits, _, - and . that begins "
                 "with a letter, a digit or _");
  }
  return absl::OkStatus();
}

absl::Status ValidateExternalConfig(absl::string_view path,
                                    const std::string& config) {
  if (ParseJson(config).is_object()) return absl::OkStatus();
  return Error(path,
               "is not a JSON object; write it like \"{\\\"rank\\\": 8}\"");
}

}  // namespace tributary
