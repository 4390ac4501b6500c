#include "server/progress/job_event.h"

#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

// Messages contain what peers have sent.
constexpr size_t kMaxMessageBytes = 2000;

const char* NameOf(JobEvent::Severity severity) {
  switch (severity) {
    case JobEvent::Severity::kInfo:
      return "info";
    case JobEvent::Severity::kWarning:
      return "warning";
    case JobEvent::Severity::kError:
      return "error";
  }
  return "";
}

}  // namespace

std::string EventLine(const JobEvent& event, absl::Time time) {
  Json line = {{"time", absl::ToDoubleSeconds(time - absl::UnixEpoch())},
               {"step", event.step},
               {"attempt", event.attempt},
               {"severity", NameOf(event.severity)},
               {"kind", event.kind},
               {"message", event.message.substr(0, kMaxMessageBytes)}};
  if (event.number >= 0) {
    line["role"] = event.role;
    line["number"] = event.number;
  }
  return line.dump(-1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

}  // namespace tributary
