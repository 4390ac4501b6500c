// Where classes live and how large they are.
//
// The checks read sources that clang-format has formatted: what a namespace
// contains begins in the first column.

#ifndef TRIBUTARY_TESTS_STRUCTURE_CLASS_CHECK_H_
#define TRIBUTARY_TESTS_STRUCTURE_CLASS_CHECK_H_

#include <string>
#include <vector>

#include "tests/structure/rooms_map.h"

namespace tributary {

// Returns one sentence for each class, struct, union or enum that more than one
// of `files` defines in the same namespace. Such types break the rule that a
// program has one definition of a name, which no linker reports. Unnamed
// namespaces, nested types and specializations of templates do not count.
std::vector<std::string> FindRepeatedTypes(
    const std::vector<SourceFile>& files);

// Returns one sentence for each class of `files` with more than `max_lines`
// lines or more than `max_methods` methods. The lines of a class are those of
// its definition and of the definitions of its members, in whichever files they
// are. Its methods are the functions that its definition declares, public and
// private, without constructors, destructors, operators, friends and the
// methods of nested classes.
std::vector<std::string> CheckClassSizes(const std::vector<SourceFile>& files,
                                         int max_lines, int max_methods);

// Returns one sentence for each of `files` that
//   - defines a member of a class which a header of another name defines (the
//     room library implements the headers of include/tributary), or
//   - is a header with a class (not just functions and structs of data) and is
//     named after nothing that it declares: the class `HttpServer` belongs in
//     http_server.h.
std::vector<std::string> CheckClassHomes(const std::vector<SourceFile>& files);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_STRUCTURE_CLASS_CHECK_H_
