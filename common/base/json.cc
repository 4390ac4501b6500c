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

std::string StringMember(const nlohmann::ordered_json& object,
                         absl::string_view name) {
  if (!object.is_object()) return "";
  const auto found = object.find(std::string(name));
  return found == object.end() || !found->is_string()
             ? ""
             : found->get<std::string>();
}

}  // namespace tributary
