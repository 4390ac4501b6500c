#include "common/tokenizer/byte_pair_files.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/special_tokens.h"
#include "common/tokenizer/tokenizer_files.h"
#include "common/tokenizer/unicode.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Vocabulary files of byte-level BPE (byte-pair encoding) represent each byte
// by a printable character.
constexpr int32_t kNoByte = -1;
constexpr int32_t kFirstOther = 0x100;
constexpr int32_t kOthers = 68;

constexpr bool IsItself(int32_t byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
         (byte >= 174 && byte <= 255);
}

// Returns the byte of each code point.
std::array<int32_t, kFirstOther + kOthers> MakeAlphabet() {
  std::array<int32_t, kFirstOther + kOthers> bytes;
  bytes.fill(kNoByte);
  int32_t other = kFirstOther;
  for (int32_t byte = 0; byte < 256; ++byte) {
    bytes[static_cast<size_t>(IsItself(byte) ? byte : other++)] = byte;
  }
  return bytes;
}

// Returns the bytes that the characters of `token` represent, or nullopt if one
// of the characters represents no byte. The bytes 33 to 126, 161 to 172 and 174
// to 255 are represented by the characters with the same code points. All other
// bytes, in ascending order, are represented by the characters from U+0100 on.
absl::optional<std::string> BytesOfToken(absl::string_view token) {
  static const auto alphabet = MakeAlphabet();
  std::string bytes;
  while (!token.empty()) {
    const Character next = FirstCharacter(token);
    if (next.point < 0 || next.point >= kFirstOther + kOthers) {
      return absl::nullopt;
    }
    const int32_t byte = alphabet[static_cast<size_t>(next.point)];
    if (byte == kNoByte) return absl::nullopt;
    bytes.push_back(static_cast<char>(byte));
    token.remove_prefix(next.bytes);
  }
  return bytes;
}

}  // namespace

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
