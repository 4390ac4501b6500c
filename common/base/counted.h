// Formats counts with their nouns, for messages.
#ifndef TRIBUTARY_COMMON_BASE_COUNTED_H_
#define TRIBUTARY_COMMON_BASE_COUNTED_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tributary {

// Returns "1 worker", "2 workers".
std::string Counted(int64_t count, absl::string_view noun);

// Takes the plural where it is irregular: "1 leaf", "2 leaves".
std::string Counted(int64_t count, absl::string_view one,
                    absl::string_view several);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_COUNTED_H_
