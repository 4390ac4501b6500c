#include "worker/data/images/picture_encoding.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "nlohmann/json.hpp"
#include "worker/data/images/picture.h"

namespace tributary {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "tributary-pictures-1";

absl::Status WrongEncoding(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the stored encoding of data.images is damaged: ", what));
}

absl::StatusOr<int64_t> ReadSide(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned() || *found == 0u ||
      *found > static_cast<uint64_t>(kMaxPicturePixels)) {
    return WrongEncoding(
        absl::StrCat("`", name, "` must be a number of pixels"));
  }
  return found->get<int64_t>();
}

}  // namespace

std::string PictureEncoding::ToJson(size_t max_bytes) const {
  Json object = {{"format", kFormat}, {"height", height}, {"width", width}};
  const auto print = [&object] {
    // Names of folders may be any bytes.
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (classes.empty()) return print();
  object["classes"] = classes;
  std::string text = print();
  if (text.size() <= max_bytes) return text;
  object.erase("classes");
  return print();
}

absl::StatusOr<PictureEncoding> PictureEncoding::FromJson(
    absl::string_view json) {
  const Json object = ParseJson(json);
  if (!object.is_object()) return WrongEncoding("it is no JSON object");
  if (object.value("format", Json()) != kFormat) {
    return WrongEncoding(absl::StrCat("its format is not ", kFormat));
  }
  PictureEncoding encoding;
  for (auto [name, side] : {std::make_pair("height", &encoding.height),
                            {"width", &encoding.width}}) {
    const absl::StatusOr<int64_t> read = ReadSide(object, name);
    if (!read.ok()) return read.status();
    *side = *read;
  }
  const auto classes = object.find("classes");
  if (classes == object.end()) return encoding;
  if (!classes->is_array()) return WrongEncoding("`classes` must be a list");
  for (const Json& name : *classes) {
    if (!name.is_string()) return WrongEncoding("a class must be a string");
    encoding.classes.push_back(name);
  }
  return encoding;
}

}  // namespace tributary
