#include "deploy/dashboard/run_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxLogBytes = 256 << 10;

// A line of a process's log: "TIME LEVEL MESSAGE", or a JSON object.
Json LogEntry(const std::string& line) {
  if (absl::StartsWith(line, "{")) {
    const Json json = ParseOrderedJson(line);
    if (!json.is_object()) {
      return {{"time", ""}, {"level", ""}, {"message", line}};
    }
    return {{"time", StringMember(json, "ts")},
            {"level", StringMember(json, "level")},
            {"message", StringMember(json, "msg")}};
  }
  const std::vector<std::string> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (parts.size() < 3) {
    return {{"time", ""}, {"level", ""}, {"message", line}};
  }
  return {{"time", parts[0]}, {"level", parts[1]}, {"message", parts[2]}};
}

// Returns up to `count` of the last lines of a file.
std::vector<std::string> LastLines(const UntrustedFolder& folder,
                                   const char* name, int count) {
  std::vector<std::string> lines = absl::StrSplit(
      folder.ReadEnd(name, kMaxLogBytes).value_or(""), '\n', absl::SkipEmpty());
  const size_t extra = lines.size() - std::min<size_t>(count, lines.size());
  lines.erase(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(extra));
  return lines;
}

}  // namespace

nlohmann::ordered_json NewestLogEntries(const UntrustedFolder& folder,
                                        int count) {
  Json entries = Json::array();
  for (const std::string& line :
       LastLines(folder, "logs/server-0.log", count)) {
    entries.push_back(LogEntry(line));
  }
  return entries;
}

nlohmann::ordered_json NewestEvents(const UntrustedFolder& folder, int count) {
  Json events = Json::array();
  for (const std::string& line : LastLines(folder, "events.jsonl", count)) {
    Json event = ParseOrderedJson(line);
    const auto step = event.find("step");
    const auto time = event.find("time");
    // A crash may have cut the last line.
    if (!event.is_object() || step == event.end() ||
        !step->is_number_integer() || time == event.end() ||
        !time->is_number() || StringMember(event, "kind").empty()) {
      continue;
    }
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace tributary
