#include "common/base/json.h"

#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Returns false if arrays and objects are nested more deeply than
// kMaxJsonDepth. nlohmann::json parses any depth, but copies and prints values
// recursively, which overflows the stack. Up to the first error in `text`, this
// function sees the same brackets as the parser.
bool IsShallow(absl::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted) {
      if (c == '\\') ++i;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return false;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return true;
}

template <typename Json>
Json Parse(absl::string_view text) {
  if (!IsShallow(text)) return Json(Json::value_t::discarded);
  return Json::parse(text.begin(), text.end(), /*cb=*/nullptr,
                     /*allow_exceptions=*/false);
}

}  // namespace

nlohmann::json ParseJson(absl::string_view text) {
  return Parse<nlohmann::json>(text);
}

nlohmann::ordered_json ParseOrderedJson(absl::string_view text) {
  return Parse<nlohmann::ordered_json>(text);
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
