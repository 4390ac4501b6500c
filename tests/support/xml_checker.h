// Checks that a text is an XML document of the simple kind that this project
// writes: elements, attributes in double quotes, text, and the predefined
// entities.
#ifndef TRIBUTARY_TESTS_SUPPORT_XML_CHECKER_H_
#define TRIBUTARY_TESTS_SUPPORT_XML_CHECKER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns an empty string if the document is well-formed
// (https://www.w3.org/TR/xml): one root, matching tags, no repeated attribute,
// no stray '<' or '&', no control characters. Otherwise returns a description
// of the first problem and the text before it. Does not check UTF-8.
std::string CheckXml(absl::string_view document);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_XML_CHECKER_H_
