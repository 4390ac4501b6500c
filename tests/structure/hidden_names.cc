#include "tests/structure/hidden_names.h"

#include <map>
#include <set>

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

// Returns the name that a line in the first column declares, or "".
std::string DeclaredName(absl::string_view line) {
  if (line.empty() || !absl::ascii_isalpha(line[0])) return "";
  for (const char* other : {"namespace ", "template ", "static_assert("}) {
    if (absl::StartsWith(line, other)) return "";
  }
  if (absl::ConsumePrefix(&line, "using ")) {
    const size_t equals = line.find(" =");
    return equals == line.npos ? "" : LastName(line.substr(0, equals));
  }
  for (const char* kind : {"struct ", "class ", "enum class ", "enum "}) {
    if (!absl::ConsumePrefix(&line, kind)) continue;
    return LastName(line.substr(0, line.find_first_of(" :{;")));
  }
  return LastName(line.substr(0, line.find_first_of("(=[{;")));
}

// Returns the names that `text` declares in its namespaces: in unnamed ones if
// `unnamed` is true, in all others otherwise.
Names DeclaredNames(absl::string_view text, bool unnamed) {
  Names names;
  bool within = false;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line == "namespace {") within = true;
    if (line == "}  // namespace") within = false;
    if (within == unnamed) names.insert(DeclaredName(line));
  }
  names.erase("");
  names.erase("__attribute__");
  return names;
}

// Returns the unqualified names in the code of `text`.
Names UsedNames(absl::string_view text) {
  Names names;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = line.substr(0, line.find("//"));
    for (size_t i = 0; i < line.size();) {
      size_t end = i;
      while (end < line.size() && BelongsInName(line[end])) ++end;
      const char before = i == 0 ? ' ' : line[i - 1];
      if (end > i && before != '.' && before != ':' && before != '>') {
        names.insert(std::string(line.substr(i, end - i)));
      }
      i = end + 1;
    }
  }
  return names;
}

std::set<std::string> IncludesOf(absl::string_view text) {
  std::set<std::string> includes;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, "#include \"")) continue;
    includes.insert(std::string(line.substr(0, line.find('"'))));
  }
  return includes;
}

struct Unit {
  std::string path;
  Names unnamed;
  Names used;
  std::set<std::string> includes;
};

}  // namespace

std::vector<std::string> FindHiddenNames(const std::vector<SourceFile>& files) {
  std::map<std::string, Names> headers;
  std::map<std::string, std::vector<Unit>> rooms;
  for (const SourceFile& file : files) {
    if (absl::EndsWith(file.path, ".h")) {
      headers[file.path] = DeclaredNames(file.text, /*unnamed=*/false);
    } else if (absl::EndsWith(file.path, ".cc")) {
      rooms[file.path.substr(0, file.path.rfind('/'))].push_back(
          {file.path, DeclaredNames(file.text, /*unnamed=*/true),
           UsedNames(file.text), IncludesOf(file.text)});
    }
  }
  std::vector<std::string> found;
  for (const auto& [room, units] : rooms) {
    for (const Unit& definer : units) {
      for (const Unit& user : units) {
        if (definer.path == user.path) continue;
        for (const std::string& header : user.includes) {
          for (const std::string& name : headers[header]) {
            if (definer.unnamed.count(name) == 0) continue;
            if (user.used.count(name) == 0) continue;
            found.push_back(absl::StrCat(definer.path, ": rename ", name,
                                         ", which hides that of ", header,
                                         " from ", user.path));
          }
        }
      }
    }
  }
  return found;
}

}  // namespace tributary
