// Parsers of JSON. They are here because each file that instantiates
// nlohmann::json::parse takes four seconds longer to compile.
#ifndef TRIBUTARY_COMMON_BASE_JSON_H_
#define TRIBUTARY_COMMON_BASE_JSON_H_

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// A discarded value, which is no object, if `text` is not JSON.
nlohmann::json ParseJson(absl::string_view text);
// The same; members stay in the order of the text.
nlohmann::ordered_json ParseOrderedJson(absl::string_view text);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_JSON_H_
