// Finds names that would change the meaning of a neighbour file. The source
// files of a room are compiled as one translation unit, in which what one file
// keeps in an unnamed namespace also hides names from the files after it.
#ifndef TRIBUTARY_TESTS_STRUCTURE_HIDDEN_NAMES_H_
#define TRIBUTARY_TESTS_STRUCTURE_HIDDEN_NAMES_H_

#include <string>
#include <vector>

#include "tests/structure/rooms_map.h"

namespace tributary {

// Returns one sentence for each name that a `.cc` file defines in an unnamed
// namespace although a header declares the same name, if another `.cc` file of
// the room includes that header and uses the name. Names are those of
// functions, types and constants. Expects the format that clang-format gives:
// what belongs to a namespace begins in the first column.
std::vector<std::string> FindHiddenNames(const std::vector<SourceFile>& files);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_STRUCTURE_HIDDEN_NAMES_H_
