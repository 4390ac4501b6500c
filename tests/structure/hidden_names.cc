#include "tests/structure/hidden_names.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/structure/declarations.h"

namespace tributary {
namespace {

using Names = std::set<std::string>;
using Paths = std::set<std::string>;

Paths IncludesOf(absl::string_view text) {
  Paths includes;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "#include \"")) continue;
    includes.insert(std::string(line.substr(0, line.find('"'))));
  }
  return includes;
}

struct Header {
  Names names;
  Paths includes;
};

// Adds the headers that `includes` lead to.
void AddClosure(const std::map<std::string, Header>& headers,
                const Paths& includes, Paths* closure) {
  for (const std::string& path : includes) {
    const auto header = headers.find(path);
    if (header == headers.end() || !closure->insert(path).second) continue;
    AddClosure(headers, header->second.includes, closure);
  }
}

struct Unit {
  std::string path;
  Names unnamed;
  Paths headers;
};

// Adds a sentence for each name that `definer` keeps although `other`, a file
// of the same room, includes a header that declares it.
void Compare(const std::map<std::string, Header>& headers, const Unit& definer,
             const Unit& other, std::vector<std::string>* found) {
  for (const std::string& path : other.headers) {
    for (const std::string& name : headers.at(path).names) {
      if (definer.unnamed.count(name) == 0) continue;
      found->push_back(absl::StrCat(definer.path, ": rename ", name,
                                    ", a name of ", path, ", which ",
                                    other.path, " includes"));
    }
  }
}

}  // namespace

std::vector<std::string> FindHiddenNames(const std::vector<SourceFile>& files) {
  // By file: the names of its unnamed namespaces, and of all others.
  std::map<std::string, Names> unnamed;
  std::map<std::string, Names> named;
  for (const Declaration& declaration : DeclarationsOf(files)) {
    if (declaration.is_member || declaration.name.empty()) continue;
    (declaration.scope.empty() ? unnamed : named)[declaration.file->path]
        .insert(declaration.name);
  }
  std::map<std::string, Header> headers;
  for (const SourceFile& file : files) {
    if (!absl::EndsWith(file.path, ".h")) continue;
    headers[file.path] = {named[file.path], IncludesOf(file.text)};
  }
  std::map<std::string, std::vector<Unit>> rooms;
  for (const SourceFile& file : files) {
    if (!absl::EndsWith(file.path, ".cc")) continue;
    Unit unit = {file.path, unnamed[file.path], {}};
    AddClosure(headers, IncludesOf(file.text), &unit.headers);
    rooms[file.path.substr(0, file.path.rfind('/'))].push_back(std::move(unit));
  }
  std::vector<std::string> found;
  for (const auto& [room, units] : rooms) {
    for (const Unit& definer : units) {
      for (const Unit& other : units) {
        if (definer.path != other.path)
          Compare(headers, definer, other, &found);
      }
    }
  }
  return found;
}

}  // namespace tributary
