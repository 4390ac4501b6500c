// Converts the events of a job (JobEvent in proto/rendezvous.proto) to and from
// lines of the file events.jsonl, which docs/metrics.md describes.
#ifndef TRIBUTARY_COMMON_EVENT_JOB_EVENT_H_
#define TRIBUTARY_COMMON_EVENT_JOB_EVENT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Largest size of JobEvent.message in bytes.
inline constexpr size_t kMaxEventMessageBytes = 2000;

// Returns `text` in the form that JobEvent.message requires: invalid UTF-8 is
// replaced by U+FFFD, the text is truncated to at most kMaxEventMessageBytes
// bytes, and an incomplete character at the end is removed.
std::string EventMessage(absl::string_view text);

// Returns "info", "warning" or "error", or an empty string for
// SEVERITY_UNSPECIFIED.
absl::string_view SeverityName(JobEvent::Severity severity);

// Returns the JSON object that represents `event` in events.jsonl.
nlohmann::ordered_json EventJson(const JobEvent& event);

// Returns EventJson(event) as one line of text, without a line end. The message
// is changed as EventMessage describes; in the other texts, invalid UTF-8 is
// replaced by U+FFFD.
std::string EventLine(const JobEvent& event);

// Parses a line of events.jsonl. Returns nullopt if the line is not a JSON
// object that has a kind and a message, both nonempty. Other members that are
// absent or have a wrong type keep their default values.
std::optional<JobEvent> ParseEventLine(absl::string_view line);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_EVENT_JOB_EVENT_H_
