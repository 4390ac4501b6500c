// ParseTokenizerJson.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/byte_pair_files.h"
#include "common/tokenizer/tokenizer_files.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::json;

// Returns the member, or null if there is none.
const Json& Member(const Json& object, const char* name) {
  static const Json* const null = new Json;
  if (!object.is_object()) return *null;
  const auto found = object.find(name);
  return found == object.end() ? *null : *found;
}

std::string TypeOf(const Json& part) {
  const Json& type = Member(part, "type");
  return type.is_string() ? type.get<std::string>() : "";
}

// Returns the beginning of the JSON text, for messages.
std::string Shown(const Json& value) {
  return value.dump(-1, ' ', true).substr(0, 100);
}

absl::Status Unsupported(absl::string_view name, const Json& value,
                         absl::string_view expected) {
  return absl::UnimplementedError(absl::StrCat(
      name, " is ", Shown(value), "; only ", expected, " is supported"));
}

// Checks that the member is absent, null, or one of two values.
absl::Status CheckIs(absl::string_view path, const Json& object,
                     const char* name, const Json& value, const Json& other) {
  const Json& member = Member(object, name);
  if (member.is_null() || member == value || member == other) {
    return absl::OkStatus();
  }
  return Unsupported(absl::StrCat(path, ".", name), member, value.dump());
}

absl::StatusOr<bool> Flag(absl::string_view path, const Json& object,
                          const char* name, bool otherwise) {
  const Json& member = Member(object, name);
  if (member.is_null()) return otherwise;
  if (!member.is_boolean()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path, ".", name, " is ", Shown(member), ", expected true or false"));
  }
  return member.get<bool>();
}

// Adds the added tokens to the names, and returns their ids.
absl::StatusOr<std::vector<int32_t>> ReadAddedTokens(
    const Json& root, std::vector<std::string>* names) {
  std::vector<int32_t> ids;
  const Json& added = Member(root, "added_tokens");
  if (added.is_null()) return ids;
  if (!added.is_array()) {
    return absl::InvalidArgumentError("added_tokens is not a JSON array");
  }
  const size_t limit = 2 * (names->size() + added.size()) + 1000;
  for (const Json& token : added) {
    const Json& content = Member(token, "content");
    const Json& id = Member(token, "id");
    if (!content.is_string() || !id.is_number_integer() ||
        id.get<int64_t>() >= static_cast<int64_t>(limit)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "added_tokens has ", Shown(token), ", expected a content and an id"));
    }
    TRIBUTARY_ASSIGN_OR_RETURN(const bool special,
                               Flag("added_tokens", token, "special", false));
    if (!special) {
      return absl::UnimplementedError(absl::StrCat(
          "added_tokens has ", Shown(token),
          ", which is not special; only special tokens can be added"));
    }
    TRIBUTARY_RETURN_IF_ERROR(
        AddName(content.get<std::string>(), id.get<int64_t>(), names));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

absl::Status CheckByteLevel(const Json& root) {
  const Json& normalizer = Member(root, "normalizer");
  if (!normalizer.is_null()) {
    return Unsupported("normalizer", normalizer, "null (with model BPE)");
  }
  const Json& pre = Member(root, "pre_tokenizer");
  if (TypeOf(pre) != "ByteLevel") {
    return Unsupported("pre_tokenizer", pre, "ByteLevel (with model BPE)");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const bool prefix, Flag("pre_tokenizer", pre, "add_prefix_space", true));
  if (prefix) {
    return absl::UnimplementedError(
        "pre_tokenizer.add_prefix_space is true; only false is supported");
  }
  return CheckIs("pre_tokenizer", pre, "use_regex", true, true);
}

absl::Status AddMerges(const Json& merges, BytePairFiles* files) {
  if (!merges.is_array()) {
    return absl::InvalidArgumentError("model.merges is not a JSON array");
  }
  size_t number = 0;
  for (const Json& merge : merges) {
    ++number;
    std::vector<std::string> pair;
    if (merge.is_string()) {
      pair = absl::StrSplit(merge.get_ref<const std::string&>(), ' ');
    } else if (merge.is_array()) {
      for (const Json& part : merge) {
        if (part.is_string()) pair.push_back(part.get<std::string>());
      }
    }
    const absl::Status status =
        pair.size() == 2 ? files->AddMerge(pair[0], pair[1])
                         : absl::InvalidArgumentError("expected two tokens");
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.merges, entry ", number, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseBytePairs(const Json& root) {
  const Json& model = Member(root, "model");
  TRIBUTARY_RETURN_IF_ERROR(CheckByteLevel(root));
  TRIBUTARY_RETURN_IF_ERROR(CheckIs("model", model, "dropout", nullptr, 0.0));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckIs("model", model, "byte_fallback", false, false));
  for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TRIBUTARY_RETURN_IF_ERROR(CheckIs("model", model, name, "", ""));
  }
  std::vector<std::string> names;
  TRIBUTARY_RETURN_IF_ERROR(ReadVocabulary(Member(model, "vocab"), &names));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<int32_t> added,
                             ReadAddedTokens(root, &names));
  BytePairFiles files(std::move(names));
  for (const int32_t id : added) files.AddSpecial(id);
  TRIBUTARY_RETURN_IF_ERROR(AddMerges(Member(model, "merges"), &files));
  TRIBUTARY_ASSIGN_OR_RETURN(BytePairModel result, files.Finish());
  TRIBUTARY_ASSIGN_OR_RETURN(result.whole_words_first,
                             Flag("model", model, "ignore_merges", false));
  return BytePairTokenizer::Create(std::move(result));
}

absl::Status ReadBertNormalizer(const Json& root,
                                BasicTokenizerOptions* options) {
  constexpr char kName[] = "normalizer";
  const Json& normalizer = Member(root, kName);
  if (TypeOf(normalizer) != "BertNormalizer") {
    return Unsupported(kName, normalizer, "BertNormalizer (with WordPiece)");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(options->clean_text,
                             Flag(kName, normalizer, "clean_text", true));
  TRIBUTARY_ASSIGN_OR_RETURN(
      options->chinese_characters,
      Flag(kName, normalizer, "handle_chinese_chars", true));
  TRIBUTARY_ASSIGN_OR_RETURN(options->lower_case,
                             Flag(kName, normalizer, "lowercase", true));
  TRIBUTARY_ASSIGN_OR_RETURN(
      options->strip_accents,
      Flag(kName, normalizer, "strip_accents", options->lower_case));
  const Json& pre = Member(root, "pre_tokenizer");
  if (TypeOf(pre) == "BertPreTokenizer") return absl::OkStatus();
  return Unsupported("pre_tokenizer", pre, "BertPreTokenizer (with WordPiece)");
}

absl::Status ReadText(const Json& model, const char* name, std::string* value) {
  const Json& member = Member(model, name);
  if (member.is_null()) return absl::OkStatus();
  if (!member.is_string() || member.get_ref<const std::string&>().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.", name, " is ", Shown(member), ", expected a text"));
  }
  *value = member.get<std::string>();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseWordPiece(const Json& root) {
  const Json& model = Member(root, "model");
  WordPieceOptions options;
  TRIBUTARY_RETURN_IF_ERROR(ReadBertNormalizer(root, &options.basic));
  TRIBUTARY_RETURN_IF_ERROR(ReadText(model, "unk_token", &options.unknown));
  TRIBUTARY_RETURN_IF_ERROR(
      ReadText(model, "continuing_subword_prefix", &options.prefix));
  const Json& longest = Member(model, "max_input_chars_per_word");
  if (longest.is_number_unsigned()) {
    options.max_characters = longest.get<int64_t>();
  } else if (!longest.is_null()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.max_input_chars_per_word is ", Shown(longest),
                     ", expected a number from 0"));
  }
  std::vector<std::string> names;
  TRIBUTARY_RETURN_IF_ERROR(ReadVocabulary(Member(model, "vocab"), &names));
  TRIBUTARY_RETURN_IF_ERROR(ReadAddedTokens(root, &names).status());
  return WordPieceTokenizer::Create(std::move(names), std::move(options));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizerJson(
    absl::string_view text) {
  const Json root = ParseJson(text);
  if (!root.is_object() || !Member(root, "model").is_object()) {
    return absl::InvalidArgumentError(
        "is not a JSON object with the member `model`");
  }
  const Json& model = Member(root, "model");
  const std::string type = TypeOf(model);
  // Old files do not name the type of BPE.
  if (type == "BPE" || (type.empty() && !Member(model, "merges").is_null())) {
    return ParseBytePairs(root);
  }
  if (type == "WordPiece") return ParseWordPiece(root);
  return Unsupported("model.type", Member(model, "type"), "BPE or WordPiece");
}

}  // namespace tributary
