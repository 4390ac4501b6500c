// Finds names that could change the meaning of a neighbour file. Several source
// files of a target are compiled as one translation unit. What one of them
// keeps in an unnamed namespace hides names of headers from the files after it,
// and headers that it does not include may declare a function that fits its own
// calls better.
#ifndef TRIBUTARY_TESTS_STRUCTURE_HIDDEN_NAMES_H_
#define TRIBUTARY_TESTS_STRUCTURE_HIDDEN_NAMES_H_

#include <string>
#include <vector>

#include "tests/structure/rooms_map.h"

namespace tributary {

// Returns one sentence for each name that a `.cc` file defines in an unnamed
// namespace although another `.cc` file of the room includes, even indirectly,
// a header of `files` that declares the name, too. Names are those of
// functions, types and constants. Expects the format that clang-format gives:
// what belongs to a namespace begins in the first column. Does not find macros,
// enumerators and names of generated headers.
std::vector<std::string> FindHiddenNames(const std::vector<SourceFile>& files);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_STRUCTURE_HIDDEN_NAMES_H_
