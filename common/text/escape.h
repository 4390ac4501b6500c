// Escapes text from other processes and files so that it is safe to print.
#ifndef TRIBUTARY_COMMON_TEXT_ESCAPE_H_
#define TRIBUTARY_COMMON_TEXT_ESCAPE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns `text` in a form that is safe to print on a terminal: control
// characters, except line ends and tabs, and bytes that are not valid UTF-8 are
// written as \xNN.
std::string EscapeForTerminal(absl::string_view text);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TEXT_ESCAPE_H_
