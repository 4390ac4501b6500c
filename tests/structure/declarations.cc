#include "tests/structure/declarations.h"

#include <algorithm>
#include <regex>

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
  static const std::regex kAttribute(R"(__attribute__\(\(.*?\)\) *)");
  static const std::regex kOther(R"(^[^({=;]*?(\w+) *[={;\[])");
  declaration->is_specialized = absl::StartsWith(text, "template <>");
  const std::string flat =
      Outside(absl::StrReplaceAll(text, {{"\n", " "}}), '<', '>');
  absl::string_view head =
      absl::StripLeadingAsciiWhitespace(absl::StripPrefix(flat, "template <>"));
  const std::string plain = std::regex_replace(
      absl::StrReplaceAll(head, {{"<>", ""}}), kAttribute, "");
  std::smatch match;
  std::string name;
  // Such a declaration only repeats a name.
  if (absl::StartsWith(plain, "using ") && !absl::StrContains(plain, '=')) {
    return;
  }
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

}  // namespace

std::vector<Declaration> DeclarationsOf(const std::vector<SourceFile>& files) {
  std::vector<Declaration> found;
  for (const SourceFile& file : files) AddDeclarations(file, &found);
  return found;
}

}  // namespace tributary
