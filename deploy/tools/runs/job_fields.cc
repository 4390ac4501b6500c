#include "deploy/tools/runs/job_fields.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include "absl/strings/str_cat.h"

namespace tributary {
namespace {

void AddFields(const google::protobuf::Message& message,
               const std::string& prefix, std::vector<JobField>* fields) {
  std::vector<const google::protobuf::FieldDescriptor*> set;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  reflection.ListFields(message, &set);
  for (const google::protobuf::FieldDescriptor* const field : set) {
    const bool is_message =
        field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE;
    // Adds the field, or its element `index` if it is repeated.
    const auto add = [&](const std::string& path, int index) {
      if (fields->size() == kMaxJobFields) return;
      if (is_message) {
        fields->emplace_back(path, "");
        AddFields(index < 0
                      ? reflection.GetMessage(message, field)
                      : reflection.GetRepeatedMessage(message, field, index),
                  absl::StrCat(path, "."), fields);
        return;
      }
      std::string text;
      google::protobuf::TextFormat::PrintFieldValueToString(message, field,
                                                            index, &text);
      fields->emplace_back(path, text);
    };
    const std::string path = absl::StrCat(prefix, field->name());
    if (!field->is_repeated()) {
      add(path, -1);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field) &&
                    fields->size() < kMaxJobFields;
         ++i) {
      add(absl::StrCat(path, "[", i, "]"), i);
    }
  }
}

}  // namespace

std::vector<JobField> FieldsOf(const JobSpec& job) {
  std::vector<JobField> fields;
  AddFields(job, "", &fields);
  return fields;
}

}  // namespace tributary
