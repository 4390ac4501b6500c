// The map of the source tree: which folder ("room") may include which.
//
// rooms.txt holds it as text:
//
//   # comment
//   common/os: common/base proto
//
// says that files of common/os may include headers of common/base and proto,
// and of no other room but their own.

#ifndef TRIBUTARY_TESTS_STRUCTURE_ROOMS_MAP_H_
#define TRIBUTARY_TESTS_STRUCTURE_ROOMS_MAP_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// The allowed arrows: room -> the rooms that it may include.
using RoomsMap = std::map<std::string, std::set<std::string>>;

// A source file: its path from the repository root, and what it holds.
struct SourceFile {
  std::string path;
  std::string text;
};

// Reads the text of rooms.txt. InvalidArgument, with the line's number, for a
// line that is not "room: rooms", or that repeats a room.
absl::StatusOr<RoomsMap> ParseRoomsMap(absl::string_view text);

// Returns the rooms of one cycle of `map`, the first again at the end, or
// nothing where there is none.
std::vector<std::string> FindCycle(const RoomsMap& map);

// Compares the includes of `files` with `map`, in both directions. Each entry
// of the result is one sentence: an include that no arrow allows, a room that
// is not in the map, or an arrow that no include uses.
std::vector<std::string> CheckIncludes(const RoomsMap& map,
                                       const std::vector<SourceFile>& files);

// One sentence for each folder with more than `max_files` source files, and
// for each file with more than `max_lines` lines.
std::vector<std::string> CheckSizes(const std::vector<SourceFile>& files,
                                    int max_files, int max_lines);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_STRUCTURE_ROOMS_MAP_H_
