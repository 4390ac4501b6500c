#include "deploy/tools/dashboard/run_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxLogBytes = 256 << 10;
constexpr size_t kMaxLogs = 1000;

constexpr absl::string_view kLevels[] = {"debug", "info", "warning", "error"};

bool IsLevel(absl::string_view text) {
  return std::find(std::begin(kLevels), std::end(kLevels), text) !=
         std::end(kLevels);
}

bool IsTime(const std::string& text) {
  absl::Time time;
  std::string error;
  return absl::ParseTime(absl::RFC3339_full, text, &time, &error);
}

// Parses "TIME LEVEL ROLE [RANK]: MESSAGE". Returns null for other lines.
Json TextEntry(absl::string_view line) {
  const std::vector<std::string> parts =
      absl::StrSplit(line, absl::MaxSplits(' ', 2));
  if (parts.size() < 3 || !IsLevel(parts[1]) || !IsTime(parts[0])) {
    return nullptr;
  }
  const std::vector<std::string> rest =
      absl::StrSplit(parts[2], absl::MaxSplits(": ", 1));
  const bool has_process = rest.size() == 2;
  // Logger writes a line end within a message as "\\n".
  return {{"time", parts[0]},
          {"level", parts[1]},
          {"process", has_process ? rest[0] : ""},
          {"message", absl::StrReplaceAll(rest.back(), {{"\\n", "\n"}})}};
}

// Parses an object as Logger writes it with --log-format json. Returns null for
// other lines.
Json JsonEntry(absl::string_view line) {
  if (!absl::StartsWith(line, "{")) return nullptr;
  const Json json = ParseOrderedJson(std::string(line));
  if (!json.is_object()) return nullptr;
  const std::string time = StringMember(json, "ts");
  const std::string level = StringMember(json, "level");
  if (!IsLevel(level) || !IsTime(time)) return nullptr;
  std::string process = StringMember(json, "role");
  const auto rank = json.find("rank");
  if (rank != json.end() && rank->is_number_integer()) {
    absl::StrAppend(&process, " ", rank->get<int64_t>());
  }
  return {{"time", time},
          {"level", level},
          {"process", process},
          {"message", StringMember(json, "msg")}};
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

nlohmann::ordered_json LogFiles(const UntrustedFolder& folder) {
  Json files = Json::array();
  const UntrustedFolder logs = folder.Subfolder("logs");
  for (const std::string& name : logs.Files()) {
    // Rotated logs end with a number.
    if (!absl::StrContains(name, ".log")) continue;
    const absl::StatusOr<InputFile::Facts> facts = logs.Look(name);
    if (!facts.ok()) continue;
    files.push_back({{"name", name},
                     {"bytes", facts->bytes},
                     {"modified", absl::ToUnixSeconds(facts->modified)}});
    if (files.size() == kMaxLogs) break;
  }
  return files;
}

nlohmann::ordered_json ParseLog(absl::string_view text) {
  Json entries = Json::array();
  bool continues = false;  // Whether the last entry is of level "output".
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    line = absl::StripSuffix(line, "\r");
    Json entry = JsonEntry(line);
    if (entry.is_null()) entry = TextEntry(line);
    if (!entry.is_null()) {
      entries.push_back(std::move(entry));
      continues = false;
    } else if (continues) {
      auto& message = entries.back()["message"].get_ref<std::string&>();
      absl::StrAppend(&message, "\n", line);
    } else {
      entries.push_back({{"time", ""},
                         {"level", "output"},
                         {"process", ""},
                         {"message", std::string(line)}});
      continues = true;
    }
  }
  return entries;
}

nlohmann::ordered_json NewestLogEntries(const UntrustedFolder& folder,
                                        const std::string& name, int count) {
  Json entries = ParseLog(
      folder.Subfolder("logs").ReadEnd(name, kMaxLogBytes).value_or(""));
  const size_t extra = entries.size() - std::min<size_t>(count, entries.size());
  entries.erase(entries.begin(),
                entries.begin() + static_cast<ptrdiff_t>(extra));
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
