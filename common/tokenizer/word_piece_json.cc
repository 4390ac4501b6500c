// WordPieceTokenizer::ToJson.
#include <cstddef>
#include <string>

#include "common/tokenizer/special_tokens.h"
#include "common/tokenizer/word_piece_tokenizer.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::json;

Json AddedToken(const std::string& name, size_t id) {
  return {{"id", id},        {"content", name}, {"single_word", false},
          {"lstrip", false}, {"rstrip", false}, {"normalized", false},
          {"special", true}};
}

}  // namespace

std::string WordPieceTokenizer::ToJson() const {
  Json vocabulary = Json::object();
  Json added = Json::array();
  for (size_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    vocabulary[tokens_[id]] = id;
    if (IsSpecialTokenName(tokens_[id])) {
      added.push_back(AddedToken(tokens_[id], id));
    }
  }
  Json processor;
  const absl::optional<int32_t> classification =
      Special(SpecialToken::kClassification);
  const absl::optional<int32_t> separator = Special(SpecialToken::kSeparator);
  if (classification.has_value() && separator.has_value()) {
    processor = {{"type", "BertProcessing"},
                 {"cls", {tokens_[*classification], *classification}},
                 {"sep", {tokens_[*separator], *separator}}};
  }
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "BertNormalizer"},
        {"clean_text", options_.basic.clean_text},
        {"handle_chinese_chars", options_.basic.chinese_characters},
        {"strip_accents", options_.basic.strip_accents},
        {"lowercase", options_.basic.lower_case}}},
      {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
      {"post_processor", processor},
      {"decoder",
       {{"type", "WordPiece"}, {"prefix", options_.prefix}, {"cleanup", true}}},
      {"model",
       {{"type", "WordPiece"},
        {"unk_token", options_.unknown},
        {"continuing_subword_prefix", options_.prefix},
        {"max_input_chars_per_word", options_.max_characters},
        {"vocab", vocabulary}}}};
  // A token that is no valid UTF-8 occurs in no text.
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

}  // namespace tributary
