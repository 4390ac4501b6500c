#include "common/text/counted.h"

#include "absl/strings/str_cat.h"

namespace tributary {

std::string Counted(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string Counted(int64_t count, absl::string_view one,
                    absl::string_view several) {
  return absl::StrCat(count, " ", count == 1 ? one : several);
}

}  // namespace tributary
