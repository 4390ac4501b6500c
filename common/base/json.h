// Parses JSON. Include this header instead of calling nlohmann::json::parse:
// each file that instantiates that template takes four seconds longer to
// compile.
#ifndef TRIBUTARY_COMMON_BASE_JSON_H_
#define TRIBUTARY_COMMON_BASE_JSON_H_

#include <string>

#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace tributary {

// Maximum depth of nested arrays and objects. Deeper text could overflow the
// stack of a process that reads it.
inline constexpr int kMaxJsonDepth = 128;

// Parses `text`. Returns a discarded value (is_discarded() is true) if `text`
// is not valid JSON, or is nested more deeply than kMaxJsonDepth.
nlohmann::json ParseJson(absl::string_view text);
// Parses `text`, keeping the members of objects in the order in which they
// appear. Returns a discarded value (is_discarded() is true) if `text` is not
// valid JSON, or is nested more deeply than kMaxJsonDepth.
nlohmann::ordered_json ParseOrderedJson(absl::string_view text);

// Returns the member `name` of `object` if it is a string; "" otherwise, also
// if `object` is not an object.
std::string StringMember(const nlohmann::ordered_json& object,
                         absl::string_view name);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_JSON_H_
