// The events of a job (JobEvent in proto/rendezvous.proto) as lines of
// events.jsonl, which docs/metrics.md describes.
#ifndef TRIBUTARY_COMMON_EVENT_JOB_EVENT_H_
#define TRIBUTARY_COMMON_EVENT_JOB_EVENT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The largest number of bytes of JobEvent.message.
inline constexpr size_t kMaxEventMessageBytes = 2000;

// Returns the text as the message of an event, which other programs refuse if
// it is not valid UTF-8: replaces invalid bytes by U+FFFD, and shortens the
// text to whole characters of at most kMaxEventMessageBytes.
std::string EventMessage(absl::string_view text);

// Returns "info", "warning" or "error"; "" for SEVERITY_UNSPECIFIED.
absl::string_view SeverityName(JobEvent::Severity severity);

// Returns the event as the object that is a line of events.jsonl.
nlohmann::ordered_json EventJson(const JobEvent& event);

// Returns the line of events.jsonl, without a line end. The message is that of
// EventMessage; in other texts, bytes that are not UTF-8 are replaced.
std::string EventLine(const JobEvent& event);

// Parses a line of events.jsonl. Returns nullopt if it is not an object with a
// kind and a message. Members that are absent or have a wrong type keep their
// default values.
std::optional<JobEvent> ParseEventLine(absl::string_view line);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_EVENT_JOB_EVENT_H_
