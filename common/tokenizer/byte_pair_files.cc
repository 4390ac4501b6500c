#include "common/tokenizer/byte_pair_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/byte_alphabet.h"
#include "common/tokenizer/special_tokens.h"
#include "common/tokenizer/tokenizer_files.h"
#include "nlohmann/json.hpp"

namespace tributary {

absl::Status AddName(const std::string& name, int64_t id,
                     std::vector<std::string>* names) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token with the id ", id, " is empty"));
  }
  if (id < 0 || id >= kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token \"", absl::CHexEscape(name), "\" has the id ",
                     id, ", expected 0 to ", kMaxTokens - 1));
  }
  const size_t place = static_cast<size_t>(id);
  if (place >= names->size()) names->resize(place + 1);
  std::string& there = (*names)[place];
  if (!there.empty() && there != name) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokens \"", absl::CHexEscape(there), "\" and \"",
                     absl::CHexEscape(name), "\" have the same id ", id));
  }
  there = name;
  return absl::OkStatus();
}

absl::Status ReadVocabulary(const nlohmann::json& json,
                            std::vector<std::string>* names) {
  if (!json.is_object() || json.empty()) {
    return absl::InvalidArgumentError(
        "the vocabulary is not a JSON object from token to id");
  }
  // A few tokens with huge ids would need much memory.
  const int64_t limit = 2 * static_cast<int64_t>(json.size()) + 1000;
  for (const auto& [name, id] : json.items()) {
    if (!id.is_number_integer() || id.get<int64_t>() >= limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the token \"", absl::CHexEscape(name), "\" has the id ",
          id.dump(-1, ' ', true).substr(0, 100), ", expected an integer below ",
          limit, ", as there are ", json.size(), " tokens"));
    }
    TRIBUTARY_RETURN_IF_ERROR(AddName(name, id.get<int64_t>(), names));
  }
  return absl::OkStatus();
}

BytePairFiles::BytePairFiles(std::vector<std::string> names)
    : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    const int32_t id = static_cast<int32_t>(i);
    if (names_[i].empty()) continue;
    ids_.emplace(names_[i], id);
    if (IsSpecialTokenName(names_[i])) AddSpecial(id);
  }
}

absl::Status BytePairFiles::AddMerge(absl::string_view left,
                                     absl::string_view right) {
  int32_t ids[2];
  const absl::string_view names[2] = {left, right};
  for (int i = 0; i < 2; ++i) {
    const auto found = ids_.find(names[i]);
    if (found == ids_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", absl::CHexEscape(names[i]), "\" is not a token"));
    }
    ids[i] = found->second;
  }
  model_.merges.emplace_back(ids[0], ids[1]);
  return absl::OkStatus();
}

absl::StatusOr<BytePairModel> BytePairFiles::Finish() {
  model_.tokens.resize(names_.size());
  for (size_t i = 0; i < names_.size(); ++i) {
    if (names_[i].empty()) continue;
    if (model_.special.contains(static_cast<int32_t>(i))) {
      model_.tokens[i] = names_[i];
      continue;
    }
    absl::optional<std::string> bytes = BytesOfToken(names_[i]);
    if (!bytes.has_value()) {
      return absl::UnimplementedError(absl::StrCat(
          "the token ", i, ", \"", absl::CHexEscape(names_[i]),
          "\", has a character that stands for no byte; only byte-level BPE is "
          "supported"));
    }
    model_.tokens[i] = *std::move(bytes);
  }
  return std::move(model_);
}

}  // namespace tributary
