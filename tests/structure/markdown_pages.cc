#include "tests/structure/markdown_pages.h"

#include <cctype>
#include <filesystem>
#include <regex>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tributary {
namespace {

// A line outside of code blocks, without its code spans.
struct Line {
  int number;
  std::string text;
};

std::vector<Line> LinesOutsideCode(const std::string& page) {
  static const std::regex kCodeSpan("`[^`]*`");
  std::vector<Line> lines;
  bool in_code = false;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    ++number;
    if (absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "```")) {
      in_code = !in_code;
    } else if (!in_code) {
      lines.push_back(
          {number, std::regex_replace(std::string(line), kCodeSpan, "")});
    }
  }
  return lines;
}

std::set<std::string> Anchors(const std::string& page) {
  std::set<std::string> anchors;
  bool in_code = false;
  for (absl::string_view line : absl::StrSplit(page, '\n')) {
    if (absl::StartsWith(line, "```")) {
      in_code = !in_code;
    } else if (!in_code && absl::StartsWith(line, "#")) {
      line.remove_prefix(line.find_first_not_of('#'));
      anchors.insert(HeadingAnchor(line));
    }
  }
  return anchors;
}

bool IsConflictMarker(absl::string_view line) {
  return line == "=======" || absl::StartsWith(line, "<<<<<<< ") ||
         absl::StartsWith(line, ">>>>>>> ");
}

// The path of `target`, as a link in the page `from` names it.
std::string ResolvePath(const std::string& from, const std::string& target) {
  return (std::filesystem::path(from).parent_path() / target)
      .lexically_normal()
      .string();
}

}  // namespace

std::string HeadingAnchor(absl::string_view heading) {
  static const std::regex kLink(R"(\[([^\]]*)\]\([^)]*\))");
  const std::string text = std::regex_replace(
      std::string(absl::StripAsciiWhitespace(heading)), kLink, "$1");
  std::string anchor;
  for (const unsigned char c : text) {
    if (c == ' ') {
      anchor += '-';
    } else if (std::isalnum(c) || c == '-' || c == '_' || c >= 0x80) {
      anchor += static_cast<char>(std::tolower(c));
    }
  }
  return anchor;
}

std::vector<std::string> CheckPages(
    const MarkdownPages& pages,
    const std::function<bool(const std::string& path)>& exists) {
  static const std::regex kLink(R"(\]\(([^)\s]+)\))");
  static const std::regex kOtherHost("(https?|mailto):.*");
  std::vector<std::string> faults;
  for (const auto& [path, page] : pages) {
    for (const Line& line : LinesOutsideCode(page)) {
      const auto add_fault = [&, &path = path](absl::string_view fault) {
        faults.push_back(absl::StrCat(path, ":", line.number, ": ", fault));
      };
      if (IsConflictMarker(line.text)) add_fault("a merge conflict");
      for (std::sregex_iterator link(line.text.begin(), line.text.end(), kLink),
           end;
           link != end; ++link) {
        const std::string target = (*link)[1];
        if (std::regex_match(target, kOtherHost)) continue;
        const std::pair<std::string, std::string> parts =
            absl::StrSplit(target, absl::MaxSplits('#', 1));
        const std::string file =
            parts.first.empty() ? path : ResolvePath(path, parts.first);
        const auto linked_page = pages.find(file);
        if (linked_page == pages.end()) {
          if (!exists(file)) add_fault(absl::StrCat("no file ", target));
        } else if (!parts.second.empty() &&
                   Anchors(linked_page->second).count(parts.second) == 0) {
          add_fault(absl::StrCat("no heading ", target));
        }
      }
    }
  }
  return faults;
}

}  // namespace tributary
