// Checks the Markdown pages of the source tree.

#ifndef TRIBUTARY_TESTS_STRUCTURE_MARKDOWN_PAGES_H_
#define TRIBUTARY_TESTS_STRUCTURE_MARKDOWN_PAGES_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tributary {

// Maps the path of each page, relative to the repository root, to its text.
using MarkdownPages = std::map<std::string, std::string>;

// Returns the anchor that GitHub gives to a heading: in lower case, with
// hyphens instead of spaces, and without punctuation.
std::string HeadingAnchor(absl::string_view heading);

// Returns one line for each fault of `pages`, in the order of the pages:
//   - a link or an image whose target neither is in `pages` nor `exists`,
//   - a link to a heading that its page does not have,
//   - a line that marks a merge conflict.
// Code is not checked, and neither are links to other hosts. `exists` is called
// with a path relative to the repository root.
std::vector<std::string> CheckPages(
    const MarkdownPages& pages,
    const std::function<bool(const std::string& path)>& exists);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_STRUCTURE_MARKDOWN_PAGES_H_
