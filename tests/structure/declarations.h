// What C++ sources declare at namespace scope.
//
// Reads sources that clang-format has formatted: what a namespace contains
// begins in the first column.

#ifndef TRIBUTARY_TESTS_STRUCTURE_DECLARATIONS_H_
#define TRIBUTARY_TESTS_STRUCTURE_DECLARATIONS_H_

#include <string>
#include <vector>

#include "tests/structure/rooms_map.h"

namespace tributary {

// What a file declares at namespace scope: a type, a member of a class, or a
// function, alias or constant.
struct Declaration {
  const SourceFile* file = nullptr;
  // The namespaces around it; "" in an unnamed namespace.
  std::string scope;
  // The last name of what is declared; of a member, the name of its class.
  std::string name;
  int lines = 0;
  bool is_type = false;  // A definition, not just a declaration, of a type.
  bool is_member = false;
  bool is_class = false;
  bool is_specialized = false;
  // Of a type: the number of functions that its definition declares, public and
  // private, without constructors, destructors, operators, friends and the
  // methods of nested classes.
  int methods = 0;
};

// Returns what `files` declare, in their order. The result points into `files`.
std::vector<Declaration> DeclarationsOf(const std::vector<SourceFile>& files);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_STRUCTURE_DECLARATIONS_H_
