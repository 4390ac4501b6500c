#include "common/job/job_changes.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job/job.h"
#include "common/optimizer/schedule.h"

namespace tributary {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::OneofDescriptor;
using ::google::protobuf::TextFormat;

// Longer values are truncated in messages.
constexpr size_t kMostCharacters = 100;

// Returns the job without the fields that do not affect its result.
JobSpec ResultOf(JobSpec job) {
  job.clear_name();
  job.clear_steps();
  job.clear_epochs();
  job.clear_evaluation();
  job.clear_output();
  job.clear_checkpoint();
  job.clear_recovery();
  job.clear_stop_when();
  job.clear_parallel();
  for (SparseTableSpec& table : *job.mutable_sparse()->mutable_table()) {
    table.clear_memory_bytes();
    table.clear_disk();
  }
  ExchangeSpec* const exchange = job.mutable_exchange();
  exchange->clear_transport();
  const int64_t chunk_bytes = ChunkBytes(*exchange);
  // Replaces an all-reduce, which computes the same result as mode synchronous.
  ParameterServerSpec* const servers = exchange->mutable_parameter_server();
  if (servers->consistency().has_synchronous()) servers->clear_consistency();
  if (job.clip_norm() > 0 || job.optimizer().has_lamb() ||
      exchange->has_compression()) {
    servers->set_chunk_bytes(chunk_bytes);
  } else {
    servers->clear_chunk_bytes();
  }
  return job;
}

std::string Shortened(const std::string& text) {
  if (text.size() <= kMostCharacters) return text;
  return absl::StrCat(text.substr(0, kMostCharacters), "...");
}

// Prints the whole field as text: "none", "0.1", "[64, 32]", "{ ... }".
std::string ValueOf(const Message& message, const FieldDescriptor* field) {
  const auto* const reflection = message.GetReflection();
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  if (field->is_repeated()) {
    std::vector<std::string> elements(reflection->FieldSize(message, field));
    for (size_t i = 0; i < elements.size(); ++i) {
      printer.PrintFieldValueToString(message, field, static_cast<int>(i),
                                      &elements[i]);
      absl::StripAsciiWhitespace(&elements[i]);
    }
    return absl::StrCat("[", absl::StrJoin(elements, ", "), "]");
  }
  const bool present = reflection->HasField(message, field);
  if (!present && !field->has_default_value()) return "none";
  // Prints the default for an absent field.
  printer.PrintFieldValueToString(message, field, -1, &text);
  return text;
}

// Prints the member of a oneof that is set: "adamw { learning_rate: 0.1 }".
std::string MemberOf(const Message& message, const OneofDescriptor* oneof) {
  const FieldDescriptor* const field =
      message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
  if (field == nullptr) return "none";
  std::string text;
  TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.PrintFieldValueToString(message, field, -1, &text);
  absl::StripAsciiWhitespace(&text);
  return absl::StrCat(field->name(), " { ", text, " }");
}

bool InOneof(const FieldDescriptor* field) {
  return field->real_containing_oneof() != nullptr;
}

// `prefix` is the path of the messages, empty or with a trailing dot.
void Compare(const Message& was, const Message& is, const std::string& prefix,
             std::vector<JobChange>* changes) {
  const auto* const type = was.GetDescriptor();
  const auto* const reflection = was.GetReflection();
  for (int i = 0; i < type->real_oneof_decl_count(); ++i) {
    const OneofDescriptor* const oneof = type->oneof_decl(i);
    if (reflection->GetOneofFieldDescriptor(was, oneof) !=
        reflection->GetOneofFieldDescriptor(is, oneof)) {
      changes->push_back({prefix.substr(0, prefix.size() - 1),
                          Shortened(MemberOf(was, oneof)),
                          Shortened(MemberOf(is, oneof))});
    }
  }
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    // A member of a oneof that only one message has was reported above.
    if (InOneof(field) && !(reflection->HasField(was, field) &&
                            reflection->HasField(is, field))) {
      continue;
    }
    const std::string path = absl::StrCat(prefix, field->name());
    if (field->message_type() != nullptr && !field->is_repeated()) {
      // An absent message equals its defaults.
      Compare(reflection->GetMessage(was, field),
              reflection->GetMessage(is, field), absl::StrCat(path, "."),
              changes);
      continue;
    }
    const std::string old_value = ValueOf(was, field);
    const std::string new_value = ValueOf(is, field);
    if (old_value != new_value) {
      changes->push_back({path, Shortened(old_value), Shortened(new_value)});
    }
  }
}

}  // namespace

std::vector<JobChange> ResultChanges(const JobSpec& was, const JobSpec& is) {
  std::vector<JobChange> changes;
  Compare(ResultOf(was), ResultOf(is), "", &changes);
  return changes;
}

bool SameLength(const JobSpec& a, const JobSpec& b) {
  return a.has_steps() == b.has_steps() && a.steps() == b.steps() &&
         a.epochs() == b.epochs();
}

bool SameEnd(const JobSpec& a, const JobSpec& b) {
  if (!SameLength(a, b) || a.has_stop_when() != b.has_stop_when()) return false;
  if (!a.has_stop_when()) return true;
  std::vector<JobChange> changes;
  Compare(a.stop_when(), b.stop_when(), "", &changes);
  // Evaluations decide when the job stops.
  Compare(a.evaluation(), b.evaluation(), "", &changes);
  return changes.empty();
}

bool LengthChangesSchedule(const JobSpec& was, const JobSpec& is) {
  const ScheduleSpec& schedule = is.schedule();
  return !SameLength(was, is) && HasEnd(schedule.decay()) &&
         schedule.decay_steps() == 0;
}

std::string PrintChanges(const std::vector<JobChange>& changes) {
  return absl::StrJoin(changes, "; ",
                       [](std::string* text, const JobChange& change) {
                         absl::StrAppend(text, change.field, " was ",
                                         change.was, ", is ", change.is);
                       });
}

}  // namespace tributary
