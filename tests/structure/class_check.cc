#include "tests/structure/class_check.h"

#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tributary {
namespace {

// What a file declares at namespace scope: a type, a member of a class, or a
// function, alias or constant.
struct Declaration {
  const SourceFile* file = nullptr;
  // "" in an unnamed namespace.
  std::string scope;
  // The last name of what is declared; of a member, the name of its class.
  std::string name;
  int lines = 0;
  bool is_type = false;
  bool is_member = false;
  bool is_class = false;
  bool is_specialized = false;
  int methods = 0;
};

// Returns the end of the literal or comment that begins at `begin`, or `begin`
// if none does.
size_t EndOfOpaque(absl::string_view text, size_t begin) {
  const char c = text[begin];
  if (absl::StartsWith(text.substr(begin), "//")) {
    return std::min(text.find('\n', begin), text.size());
  }
  const bool after_name = begin > 0 && absl::ascii_isalnum(text[begin - 1]);
  if (c == '"' && begin > 0 && text[begin - 1] == 'R') {
    const size_t open = text.find('(', begin);
    const std::string close =
        absl::StrCat(")", text.substr(begin + 1, open - begin - 1), "\"");
    return text.find(close, open) + close.size();
  }
  // An apostrophe within a number is no literal.
  if (c != '"' && (c != '\'' || after_name)) return begin;
  size_t end = begin + 1;
  while (end < text.size() && text[end] != c) end += text[end] == '\\' ? 2 : 1;
  return end + 1;
}

// Removes comments and what literals contain; lines stay.
std::string WithoutComments(absl::string_view text) {
  std::string rest;
  for (size_t i = 0; i < text.size();) {
    const size_t end = EndOfOpaque(text, i);
    if (end == i) {
      rest += text[i++];
      continue;
    }
    const absl::string_view opaque = text.substr(i, end - i);
    if (opaque[0] == '"') rest += "\"\"";
    rest.append(std::count(opaque.begin(), opaque.end(), '\n'), '\n');
    i = end;
  }
  return rest;
}

// Keeps of `text` what is outside of pairs of `open` and `close`.
std::string Outside(absl::string_view text, char open, char close) {
  std::string rest;
  int depth = 0;
  for (const char c : text) {
    if (c == close && depth > 0 && --depth == 0) {
      rest += close;
      continue;
    }
    if (depth == 0) rest += c;
    if (c == open) ++depth;
  }
  return rest;
}

// Counts the methods in the body of the class `name`.
int CountMethods(absl::string_view type, const std::string& name) {
  static const std::regex kIgnored(
      R"(\b(public|private|protected):|\bABSL_\w+(\([^()]*(\([^()]*\))?[^()]*\))?|\btemplate <>)");
  static const std::regex kMethod(R"(^[^=({]*?(~?\w+) *\()");
  const size_t begin = type.find('{') + 1;
  std::string body =
      Outside(type.substr(begin, type.rfind('}') - begin), '{', '}');
  body = absl::StrReplaceAll(Outside(body, '<', '>'), {{"}", "};"}});
  int methods = 0;
  for (absl::string_view statement : absl::StrSplit(body, ';')) {
    const std::string text =
        std::regex_replace(std::string(statement), kIgnored, "");
    statement = absl::StripLeadingAsciiWhitespace(text);
    std::cmatch match;
    const std::string plain(statement);
    if (absl::StartsWith(statement, "friend ") ||
        absl::StartsWith(statement, "using ") ||
        absl::StrContains(statement, "operator") ||
        !std::regex_search(plain.c_str(), match, kMethod)) {
      continue;
    }
    if (absl::StripPrefix(match[1].str(), "~") != name) ++methods;
  }
  return methods;
}

// Fills in what `text`, a declaration without comments, declares.
void Read(const std::string& text, Declaration* declaration) {
  static const std::regex kType(
      R"(^(class|struct|union|enum class|enum) +(?:\w+\([^)]*\) *)*([\w:]+)[^({;]*\{)");
  static const std::regex kFunction(R"(^[^({=]*?\b([\w:~]+) *\()");
  static const std::regex kOther(R"(^[^({=;]*?(\w+) *[={;\[])");
  declaration->is_specialized = absl::StartsWith(text, "template <>");
  const std::string flat =
      Outside(absl::StrReplaceAll(text, {{"\n", " "}}), '<', '>');
  absl::string_view head =
      absl::StripLeadingAsciiWhitespace(absl::StripPrefix(flat, "template <>"));
  const std::string plain = absl::StrReplaceAll(head, {{"<>", ""}});
  std::smatch match;
  std::string name;
  if (std::regex_search(plain, match, kType)) {
    name = match[2];
    declaration->is_class = match[1] == "class";
    declaration->is_type = !absl::StrContains(name, "::");
    if (declaration->is_type && !absl::StartsWith(plain, "enum")) {
      declaration->methods = CountMethods(text, name);
    }
  } else if (std::regex_search(plain, match, kFunction) ||
             std::regex_search(plain, match, kOther)) {
    name = match[1];
  }
  const std::vector<std::string> parts = absl::StrSplit(name, "::");
  declaration->is_member = parts.size() > 1;
  declaration->name = parts[0];
}

// Adds the declarations of `file` at namespace scope.
void AddDeclarations(const SourceFile& file, std::vector<Declaration>* found) {
  std::vector<std::string> scopes;
  const std::string code = WithoutComments(file.text);
  std::string text;
  int lines = 0;
  int depth = 0;
  for (absl::string_view line : absl::StrSplit(code, '\n')) {
    line = absl::StripTrailingAsciiWhitespace(line);
    if (!line.empty() && line[0] == '#') continue;
    if (text.empty()) {
      if (line.empty() || line[0] == ' ') continue;
      if (line[0] == '}') {
        if (!scopes.empty()) scopes.pop_back();
        continue;
      }
      if ((absl::StartsWith(line, "namespace ") ||
           absl::StartsWith(line, "extern \"\" {")) &&
          absl::EndsWith(line, "{")) {
        scopes.emplace_back(absl::StripSuffix(line, " {"));
        continue;
      }
    }
    absl::StrAppend(&text, line, "\n");
    ++lines;
    depth += std::count_if(line.begin(), line.end(),
                           [](char c) { return c == '{' || c == '('; });
    depth -= std::count_if(line.begin(), line.end(),
                           [](char c) { return c == '}' || c == ')'; });
    if (depth > 0 || !(absl::EndsWith(line, ";") || absl::EndsWith(line, "}")))
      continue;
    Declaration declaration;
    declaration.file = &file;
    declaration.lines = lines;
    declaration.scope = absl::StrJoin(scopes, " ");
    const bool unnamed =
        std::count(scopes.begin(), scopes.end(), "namespace") > 0;
    if (unnamed) declaration.scope.clear();
    Read(text, &declaration);
    found->push_back(std::move(declaration));
    text.clear();
    lines = 0;
    depth = 0;
  }
}

std::vector<Declaration> DeclarationsOf(const std::vector<SourceFile>& files) {
  std::vector<Declaration> found;
  for (const SourceFile& file : files) AddDeclarations(file, &found);
  return found;
}

absl::string_view WithoutExtension(absl::string_view path) {
  return path.substr(0, path.rfind('.'));
}

// The room library implements the headers of include/tributary.
std::string PairOf(absl::string_view path) {
  return absl::StrReplaceAll(WithoutExtension(path),
                             {{"include/tributary/", "library/"}});
}

// Classes of unnamed namespaces belong to their file.
std::string KeyOf(const Declaration& declaration) {
  return absl::StrCat(
      declaration.scope.empty() ? declaration.file->path : declaration.scope,
      " ", declaration.name);
}

// Returns the letters of `name` by which names of files and of classes are
// compared: "HttpServer" and "http_server" have the same.
std::string Letters(absl::string_view name) {
  return absl::AsciiStrToLower(absl::StrReplaceAll(name, {{"_", ""}}));
}

}  // namespace

std::vector<std::string> FindRepeatedTypes(
    const std::vector<SourceFile>& files) {
  std::map<std::string, std::set<std::string>> homes;
  for (const Declaration& declaration : DeclarationsOf(files)) {
    if (!declaration.is_type || declaration.is_specialized ||
        declaration.scope.empty()) {
      continue;
    }
    homes[KeyOf(declaration)].insert(declaration.file->path);
  }
  std::vector<std::string> found;
  for (const auto& [name, paths] : homes) {
    if (paths.size() == 1) continue;
    found.push_back(absl::StrCat(name, " is defined by each of ",
                                 absl::StrJoin(paths, ", "), ": rename it"));
  }
  return found;
}

std::vector<std::string> CheckClassSizes(const std::vector<SourceFile>& files,
                                         int max_lines, int max_methods) {
  std::map<std::string, Declaration> classes;
  for (const Declaration& declaration : DeclarationsOf(files)) {
    if (!declaration.is_type && !declaration.is_member) continue;
    Declaration& sum = classes[KeyOf(declaration)];
    const int lines = sum.lines + declaration.lines;
    if (declaration.is_type || sum.file == nullptr) sum = declaration;
    sum.lines = lines;
  }
  std::vector<std::string> errors;
  for (const auto& [key, sum] : classes) {
    if (sum.lines > max_lines) {
      errors.push_back(absl::StrCat(sum.file->path, ": ", sum.name, " has ",
                                    sum.lines, " lines, at most ", max_lines,
                                    " are allowed: divide it"));
    }
    if (sum.methods > max_methods) {
      errors.push_back(absl::StrCat(sum.file->path, ": ", sum.name, " has ",
                                    sum.methods, " methods, at most ",
                                    max_methods, " are allowed: divide it"));
    }
  }
  return errors;
}

std::vector<std::string> CheckClassHomes(const std::vector<SourceFile>& files) {
  const std::vector<Declaration> declarations = DeclarationsOf(files);
  std::map<std::string, const SourceFile*> headers;
  std::set<std::string> with_class;
  std::map<std::string, std::set<std::string>> names;
  for (const Declaration& declaration : declarations) {
    const std::string& path = declaration.file->path;
    if (!absl::EndsWith(path, ".h") || declaration.is_member) continue;
    names[path].insert(Letters(declaration.name));
    if (!declaration.is_type) continue;
    headers[KeyOf(declaration)] = declaration.file;
    if (declaration.is_class) with_class.insert(path);
  }
  std::set<std::string> errors;
  for (const std::string& path : with_class) {
    const std::string file_name = path.substr(path.rfind('/') + 1);
    if (names[path].count(Letters(WithoutExtension(file_name))) > 0) continue;
    errors.insert(absl::StrCat(path, " declares nothing with its name: name ",
                               "the header after its class"));
  }
  for (const Declaration& declaration : declarations) {
    const auto header = headers.find(KeyOf(declaration));
    if (!declaration.is_member || header == headers.end()) continue;
    const std::string& home = header->second->path;
    const std::string& path = declaration.file->path;
    if (PairOf(home) == PairOf(path)) continue;
    errors.insert(absl::StrCat(path, " defines a member of ", declaration.name,
                               ", a class of ", home, ": move it into ",
                               PairOf(home), ".cc"));
  }
  return {errors.begin(), errors.end()};
}

}  // namespace tributary
