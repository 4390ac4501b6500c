#include "worker/data/text/text_encoding.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::json;

constexpr char kFormat[] = "tributary-text-1";

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

absl::Status WrongEncoding(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the description of the training texts is invalid: ", what));
}

}  // namespace

std::string TextEncoding::ToJson() const {
  return absl::StrCat("{\"classes\":", Dump(Json(classes)), ",\"format\":\"",
                      kFormat, "\",\"tokenizer\":", tokenizer_json, "}");
}

absl::StatusOr<TextEncoding> TextEncoding::FromJson(absl::string_view json) {
  const Json object = ParseJson(json);
  if (!object.is_object()) return WrongEncoding("it is no JSON object");
  if (object.value("format", Json()) != kFormat) {
    return WrongEncoding(absl::StrCat("its format is not ", kFormat));
  }
  const Json classes = object.value("classes", Json());
  if (!classes.is_array())
    return WrongEncoding("`classes` must be a list of names");
  TextEncoding encoding;
  for (const Json& name : classes) {
    if (!name.is_string())
      return WrongEncoding("`classes` must be a list of names");
    encoding.classes.push_back(name.get<std::string>());
  }
  const auto tokenizer = object.find("tokenizer");
  if (tokenizer == object.end() || !tokenizer->is_object()) {
    return WrongEncoding("`tokenizer` must be a JSON object");
  }
  encoding.tokenizer_json = Dump(*tokenizer);
  return encoding;
}

absl::StatusOr<std::string> WordPieceJson(const Tokenizer& tokenizer,
                                          const std::string& field) {
  std::string json = tokenizer.ToJson();
  if (!json.empty()) return json;
  return absl::InvalidArgumentError(absl::StrCat(
      field, ": is not WordPiece; model.bert needs the tokenizer of a BERT"));
}

}  // namespace tributary
