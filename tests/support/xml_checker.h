// Tells whether a text is an XML document of the simple kind that we write:
// elements, attributes in double quotes, text, and the predefined entities.
#ifndef TRIBUTARY_TESTS_SUPPORT_XML_CHECKER_H_
#define TRIBUTARY_TESTS_SUPPORT_XML_CHECKER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Empty if it is well-formed (https://www.w3.org/TR/xml): one root, tags that
// match, no attribute twice, no stray '<' or '&', no control characters. Else
// what is wrong, and after which text. UTF-8 is not checked.
std::string CheckXml(absl::string_view document);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_XML_CHECKER_H_
