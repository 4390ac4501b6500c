#include "tests/structure/hidden_names.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tributary {
namespace {

using Names = std::set<std::string>;

bool BelongsInName(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Returns the name that ends where `text` ends; "" if it is qualified.
std::string LastName(absl::string_view text) {
  text = absl::StripTrailingAsciiWhitespace(text);
  size_t begin = text.size();
  while (begin > 0 && BelongsInName(text[begin - 1])) --begin;
  if (begin > 0 && text[begin - 1] == ':') return "";
  return std::string(text.substr(begin));
}

// Removes template arguments, which may contain parentheses.
std::string WithoutTemplateArguments(absl::string_view text) {
  std::string rest;
  int depth = 0;
  for (const char c : text) {
    if (c == '>' && depth > 0) --depth;
    if (depth == 0) rest += c;
    if (c == '<') ++depth;
  }
  return rest;
}

// Returns the name that a declaration declares, or "".
std::string DeclaredName(absl::string_view declaration) {
  if (!absl::ascii_isalpha(declaration[0])) return "";
  for (const char* other : {"namespace ", "static_assert("}) {
    if (absl::StartsWith(declaration, other)) return "";
  }
  const std::string plain = WithoutTemplateArguments(declaration);
  absl::string_view text = plain;
  absl::ConsumePrefix(&text, "template<> ");
  absl::ConsumePrefix(&text, "template <> ");
  if (absl::ConsumePrefix(&text, "using ")) {
    const size_t equals = text.find(" =");
    return equals == text.npos ? "" : LastName(text.substr(0, equals));
  }
  for (const char* kind : {"struct ", "class ", "enum class ", "enum "}) {
    if (!absl::ConsumePrefix(&text, kind)) continue;
    return LastName(text.substr(0, text.find_first_of(" :{;")));
  }
  return LastName(text.substr(0, text.find_first_of("(=[{;")));
}

// Returns the lines of `text` that begin in the first column, each with the
// lines after it up to the first character that ends a name.
std::vector<std::string> Declarations(absl::string_view text) {
  std::vector<std::string> declarations;
  bool open = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (open && !line.empty()) {
      absl::StrAppend(&declarations.back(), " ",
                      absl::StripLeadingAsciiWhitespace(line));
    } else if (!line.empty() && line[0] != ' ') {
      declarations.emplace_back(line);
    } else {
      open = false;
      continue;
    }
    const std::string& last = declarations.back();
    open = absl::ascii_isalpha(last[0]) &&
           WithoutTemplateArguments(last).find_first_of("(={;") ==
               std::string::npos;
  }
  return declarations;
}

// Returns the names that `text` declares in its namespaces: in unnamed ones if
// `unnamed` is true, in all others otherwise.
Names DeclaredNames(absl::string_view text, bool unnamed) {
  Names names;
  bool within = false;
  for (const std::string& declaration : Declarations(text)) {
    if (declaration == "namespace {") within = true;
    if (declaration == "}  // namespace") within = false;
    if (within == unnamed) names.insert(DeclaredName(declaration));
  }
  names.erase("");
  names.erase("__attribute__");
  return names;
}

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
  std::map<std::string, Header> headers;
  for (const SourceFile& file : files) {
    if (!absl::EndsWith(file.path, ".h")) continue;
    headers[file.path] = {DeclaredNames(file.text, /*unnamed=*/false),
                          IncludesOf(file.text)};
  }
  std::map<std::string, std::vector<Unit>> rooms;
  for (const SourceFile& file : files) {
    if (!absl::EndsWith(file.path, ".cc")) continue;
    Unit unit = {file.path, DeclaredNames(file.text, /*unnamed=*/true)};
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
