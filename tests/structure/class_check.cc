#include "tests/structure/class_check.h"

#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "tests/structure/declarations.h"

namespace tributary {
namespace {

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
