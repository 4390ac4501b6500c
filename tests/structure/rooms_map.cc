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

std::string TopFolderOf(absl::string_view folder) {
  return std::string(folder.substr(0, folder.find('/')));
}

// The top-level folders that hold headers of this repository.
std::set<std::string> TopFolders(const RoomsMap& map) {
  std::set<std::string> folders = {"examples", "proto", "tests"};
  for (const auto& entry : map) folders.insert(TopFolderOf(entry.first));
  return folders;
}

// The folders below `top_folders` whose headers `text` includes. Includes name
// a header by its path from the repository root, or from the folder include.
std::set<std::string> IncludedFolders(const std::set<std::string>& top_folders,
                                      absl::string_view text) {
  std::set<std::string> folders;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "#include \"")) continue;
    std::string folder = FolderOf(line.substr(0, line.find('"')));
    if (TopFolderOf(folder) == "tributary") {
      folder = absl::StrCat("include/", folder);
    }
    if (top_folders.count(TopFolderOf(folder)) > 0) folders.insert(folder);
  }
  return folders;
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

constexpr absl::string_view kRoomsTableHeading = "| room | contents |";

// The rows of the table of rooms in `page`, without the heading and the line
// below it.
std::vector<absl::string_view> RoomsTableRows(absl::string_view page) {
  std::vector<absl::string_view> rows;
  bool in_table = false;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    if (line == kRoomsTableHeading) {
      in_table = true;
    } else if (!absl::StartsWith(line, "|")) {
      in_table = false;
    } else if (in_table && !absl::StartsWith(line, "| ---")) {
      rows.push_back(line);
    }
  }
  return rows;
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
  const std::set<std::string> top_folders = TopFolders(map);
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
    for (const std::string& included :
         IncludedFolders(top_folders, file.text)) {
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

std::vector<std::string> CheckRoomsTable(const RoomsMap& map,
                                         absl::string_view page) {
  std::vector<std::string> errors;
  std::set<std::string> listed;
  for (const absl::string_view row : RoomsTableRows(page)) {
    // A row begins and ends with a bar, so it has an empty part at each end.
    const std::vector<absl::string_view> parts = absl::StrSplit(row, '|');
    if (parts.size() != 4) {
      errors.push_back(absl::StrCat("row \"", row,
                                    "\" must have two cells, as the heading "
                                    "of the table of rooms"));
      continue;
    }
    const std::string room(absl::StripAsciiWhitespace(parts[1]));
    if (map.count(room) == 0) {
      errors.push_back(absl::StrCat("row ", room, ": rooms.txt has no room ",
                                    room, "; correct or remove the row"));
    } else if (!listed.insert(room).second) {
      errors.push_back(
          absl::StrCat("row ", room, ": the room is listed twice"));
    }
  }
  for (const auto& entry : map) {
    if (listed.count(entry.first) > 0) continue;
    errors.push_back(absl::StrCat("no row ", entry.first,
                                  "; add it to the table with the heading \"",
                                  kRoomsTableHeading, "\""));
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
