#include "common/event/job_event.h"

#include <algorithm>

#include "common/base/json.h"
#include "common/text/utf8_stream.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr JobEvent::Severity kSeverities[] = {JobEvent::INFO, JobEvent::WARNING,
                                              JobEvent::ERROR};

std::string TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : "";
}

int64_t IntegerOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number_integer()
             ? found->get<int64_t>()
             : 0;
}

}  // namespace

absl::string_view SeverityName(JobEvent::Severity severity) {
  switch (severity) {
    case JobEvent::INFO:
      return "info";
    case JobEvent::WARNING:
      return "warning";
    case JobEvent::ERROR:
      return "error";
    default:
      return "";
  }
}

std::string EventMessage(absl::string_view text) {
  std::string message = Utf8Stream(/*replace_invalid=*/true)
                            .Add(text.substr(0, kMaxEventMessageBytes));
  // U+FFFD is longer than a byte that it replaces.
  message.resize(std::min(message.size(), kMaxEventMessageBytes));
  return Utf8Stream(/*replace_invalid=*/true).Add(message);
}

Json EventJson(const JobEvent& event) {
  Json json = {{"id", event.id()},
               {"time", event.time()},
               {"step", event.step()},
               {"attempt", event.attempt()},
               {"severity", SeverityName(event.severity())},
               {"kind", event.kind()},
               {"message", EventMessage(event.message())}};
  if (!event.role().empty()) {
    json["role"] = event.role();
    json["number"] = event.number();
  }
  return json;
}

std::string EventLine(const JobEvent& event) {
  return EventJson(event).dump(-1, ' ', /*ensure_ascii=*/false,
                               Json::error_handler_t::replace);
}

std::optional<JobEvent> ParseEventLine(absl::string_view line) {
  const Json json = ParseOrderedJson(line);
  if (!json.is_object()) return std::nullopt;
  JobEvent event;
  event.set_kind(TextOf(json, "kind"));
  event.set_message(TextOf(json, "message"));
  if (event.kind().empty() || event.message().empty()) return std::nullopt;
  event.set_id(IntegerOf(json, "id"));
  const auto time = json.find("time");
  if (time != json.end() && time->is_number()) {
    event.set_time(time->get<double>());
  }
  event.set_step(IntegerOf(json, "step"));
  event.set_attempt(IntegerOf(json, "attempt"));
  const std::string severity = TextOf(json, "severity");
  for (const JobEvent::Severity one : kSeverities) {
    if (severity == SeverityName(one)) event.set_severity(one);
  }
  event.set_role(TextOf(json, "role"));
  event.set_number(static_cast<int>(IntegerOf(json, "number")));
  return event;
}

}  // namespace tributary
