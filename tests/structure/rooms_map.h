// The map of the source tree: which folder ("room") may include headers of
// which other rooms.
//
// rooms.txt holds it as text:
//
//   # comment
//   common/os: common/base proto
//
// says that files of common/os may include headers of common/base, of proto,
// and of common/os itself, but of no other room. The room include/tributary
// holds the headers that are included as "tributary/...".

#ifndef TRIBUTARY_TESTS_STRUCTURE_ROOMS_MAP_H_
#define TRIBUTARY_TESTS_STRUCTURE_ROOMS_MAP_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tributary {

// Maps each room to the rooms whose headers it may include.
using RoomsMap = std::map<std::string, std::set<std::string>>;

// A source file. `path` is relative to the repository root; `text` is the
// contents of the file.
struct SourceFile {
  std::string path;
  std::string text;
};

// Parses the text of rooms.txt. Returns InvalidArgument, with the line number,
// for a line that does not have the form "room: rooms" or that repeats a room.
// Skips comments and empty lines.
absl::StatusOr<RoomsMap> ParseRoomsMap(absl::string_view text);

// Returns the rooms of a cycle of `map`, with the first room again at the end,
// or an empty list if there is no cycle.
std::vector<std::string> FindCycle(const RoomsMap& map);

// Compares the includes of `files` with `map`. Returns one sentence for each
// include that `map` does not allow, even if the included folder is no room,
// for each file whose room is not in `map`, and for each allowed room that no
// include uses. Headers of other projects may be included everywhere.
std::vector<std::string> CheckIncludes(const RoomsMap& map,
                                       const std::vector<SourceFile>& files);

// Compares the table of rooms in `page`, the text of docs/internals/rooms.md,
// with `map`. The table has the heading
//
//   | room | contents |
//
// and one row for each room of `map`. Returns one sentence, which names the
// room, for each row that is missing or wrong.
std::vector<std::string> CheckRoomsTable(const RoomsMap& map,
                                         absl::string_view page);

// Returns one sentence for each folder with more than `max_files` source files,
// and for each file with more than `max_lines` lines.
std::vector<std::string> CheckSizes(const std::vector<SourceFile>& files,
                                    int max_files, int max_lines);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_STRUCTURE_ROOMS_MAP_H_
