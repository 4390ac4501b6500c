#include "common/base/json.h"

#include "nlohmann/json.hpp"

namespace tributary {

nlohmann::json ParseJson(absl::string_view text) {
  return nlohmann::json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                               /*allow_exceptions=*/false);
}

nlohmann::ordered_json ParseOrderedJson(absl::string_view text) {
  return nlohmann::ordered_json::parse(text.begin(), text.end(),
                                       /*cb=*/nullptr,
                                       /*allow_exceptions=*/false);
}

}  // namespace tributary
