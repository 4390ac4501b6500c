// Formats a count and its noun for messages.
#ifndef TRIBUTARY_COMMON_TEXT_COUNTED_H_
#define TRIBUTARY_COMMON_TEXT_COUNTED_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns, for example, "1 worker" or "2 workers". Forms the plural with "s".
std::string Counted(int64_t count, absl::string_view noun);

// Returns, for example, "1 leaf" or "2 leaves". `one` is the singular of the
// noun, and `several` the plural.
std::string Counted(int64_t count, absl::string_view one,
                    absl::string_view several);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TEXT_COUNTED_H_
