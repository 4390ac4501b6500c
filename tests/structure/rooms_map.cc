#include "tests/structure/rooms_map.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tributary {
namespace {

std::string FolderOf(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return "";
  return std::string(path.substr(0, slash));
}

// The rooms whose headers `text` includes. A header of ours is included by its
// path from the repository root, and its folder is a room or proto.
std::set<std::string> IncludedRooms(const RoomsMap& map,
                                    absl::string_view text) {
  std::set<std::string> rooms;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "#include \"")) continue;
    const std::string room = FolderOf(line.substr(0, line.find('"')));
    if (room == "proto" || map.count(room) > 0) rooms.insert(room);
  }
  return rooms;
}

// Depth-first search; `path` is the way from the start to `room`. True when
// `path` ends with a cycle.
bool Visit(const RoomsMap& map, const std::string& room,
           std::set<std::string>& done, std::vector<std::string>& path) {
  const auto seen = std::find(path.begin(), path.end(), room);
  if (seen != path.end()) {
    path.erase(path.begin(), seen);
    path.push_back(room);
    return true;
  }
  const auto arrows = map.find(room);
  if (arrows == map.end() || done.count(room) > 0) return false;
  path.push_back(room);
  for (const std::string& next : arrows->second) {
    if (Visit(map, next, done, path)) return true;
  }
  path.pop_back();
  done.insert(room);
  return false;
}

}  // namespace

absl::StatusOr<RoomsMap> ParseRoomsMap(absl::string_view text) {
  RoomsMap map;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    if (line.empty() || absl::StartsWith(line, "#")) continue;
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (!absl::StrContains(line, ':') || parts.first.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, ": \"", line, "\" is not \"room: rooms\""));
    }
    const std::vector<std::string> rooms =
        absl::StrSplit(parts.second, ' ', absl::SkipEmpty());
    if (!map.try_emplace(std::string(parts.first), rooms.begin(), rooms.end())
             .second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", number, ": room ", parts.first, " is listed twice"));
    }
  }
  return map;
}

std::vector<std::string> FindCycle(const RoomsMap& map) {
  std::set<std::string> done;
  for (const auto& entry : map) {
    std::vector<std::string> path;
    if (Visit(map, entry.first, done, path)) return path;
  }
  return {};
}

std::vector<std::string> CheckIncludes(const RoomsMap& map,
                                       const std::vector<SourceFile>& files) {
  std::vector<std::string> errors;
  RoomsMap used;
  for (const SourceFile& file : files) {
    const std::string room = FolderOf(file.path);
    const auto arrows = map.find(room);
    if (arrows == map.end()) {
      errors.push_back(absl::StrCat(file.path, ": rooms.txt has no room ", room,
                                    "; add it, or move the file"));
      continue;
    }
    for (const std::string& included : IncludedRooms(map, file.text)) {
      if (included == room) continue;
      used[room].insert(included);
      if (arrows->second.count(included) > 0) continue;
      errors.push_back(absl::StrCat(
          file.path, " includes a header of ", included, ", but ", room,
          " may include only: ", absl::StrJoin(arrows->second, " ")));
    }
  }
  for (const auto& [room, arrows] : map) {
    for (const std::string& to : arrows) {
      if (used[room].count(to) > 0) continue;
      errors.push_back(absl::StrCat("no file of ", room, " includes a header ",
                                    "of ", to, "; remove it from rooms.txt"));
    }
  }
  return errors;
}

std::vector<std::string> CheckSizes(const std::vector<SourceFile>& files,
                                    int max_files, int max_lines) {
  std::vector<std::string> errors;
  std::map<std::string, int> file_counts;
  for (const SourceFile& file : files) {
    ++file_counts[FolderOf(file.path)];
    const auto lines = std::count(file.text.begin(), file.text.end(), '\n');
    if (lines <= max_lines) continue;
    errors.push_back(absl::StrCat(file.path, " has ", lines, " lines, at most ",
                                  max_lines, " are allowed: divide it"));
  }
  for (const auto& [folder, count] : file_counts) {
    if (count <= max_files) continue;
    errors.push_back(absl::StrCat(folder, " has ", count,
                                  " source files, at most ", max_files,
                                  " are allowed: divide it into rooms"));
  }
  return errors;
}

}  // namespace tributary
