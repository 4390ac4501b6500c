#include "common/tokenizer/word_piece_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/special_tokens.h"
#include "common/tokenizer/unicode.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr int32_t kReplacement = 0xfffd;
// Texts are normalized in pieces that begin at white space, so that the memory
// for the normalized text is small.
constexpr size_t kPieceBytes = 1 << 16;

// The blocks that BERT treats as Chinese characters: CJK Unified Ideographs,
// its extensions A to E, and CJK Compatibility Ideographs with its supplement.
bool IsChinese(int32_t point) {
  constexpr int32_t kBlocks[][2] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},
                                    {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                                    {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf},
                                    {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  for (const auto& block : kBlocks) {
    if (point >= block[0] && point <= block[1]) return true;
  }
  return false;
}

bool SeparatesWords(int32_t point) {
  if (point < 0x80)
    return absl::ascii_ispunct(static_cast<unsigned char>(point));
  return IsPunctuation(point);
}

bool IsKeptControl(int32_t point) {
  return point == '\t' || point == '\n' || point == '\r';
}

// Appends the character after cleaning and spacing.
void AppendCleaned(int32_t point, const BasicTokenizerOptions& options,
                   std::string* text) {
  if (options.clean_text) {
    if (point == 0 || point == kReplacement) return;
    if (!IsKeptControl(point) && IsControl(point)) return;
    if (IsSpace(point)) point = ' ';
  }
  if (options.chinese_characters && IsChinese(point)) {
    text->push_back(' ');
    AppendCharacter(point, text);
    text->push_back(' ');
    return;
  }
  AppendCharacter(point, text);
}

std::string WithoutAccents(absl::string_view text) {
  std::string decomposed;
  AppendDecomposed(text, &decomposed);
  std::string result;
  for (absl::string_view rest = decomposed; !rest.empty();) {
    const Character next = FirstCharacter(rest);
    if (!IsNonspacingMark(next.point)) result.append(rest.data(), next.bytes);
    rest.remove_prefix(next.bytes);
  }
  return result;
}

std::string LowerCase(absl::string_view text) {
  std::string result;
  for (absl::string_view rest = text; !rest.empty();) {
    const Character next = FirstCharacter(rest);
    AppendLowerCase(next.point, &result);
    rest.remove_prefix(next.bytes);
  }
  return result;
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x80;
  });
}

// Returns the length of the first piece of `text`: all of it, or up to white
// space.
size_t PieceBytes(absl::string_view text) {
  for (size_t at = kPieceBytes; at < text.size(); ++at) {
    if (text[at] == ' ' || text[at] == '\n') return at;
  }
  return text.size();
}

// Calls `word` with each word of the normalized text.
template <typename Word>
void ForEachWord(absl::string_view text, const Word& word) {
  size_t begin = 0;
  size_t at = 0;
  const auto end_word = [&] {
    if (at > begin) word(text.substr(begin, at - begin));
  };
  while (at < text.size()) {
    const Character next = FirstCharacter(text.substr(at));
    const bool space = IsSpace(next.point);
    if (space || SeparatesWords(next.point)) {
      end_word();
      if (!space) word(text.substr(at, next.bytes));
      begin = at + next.bytes;
    }
    at += next.bytes;
  }
  end_word();
}

int64_t Characters(absl::string_view word) {
  return std::count_if(word.begin(), word.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  });
}

using Json = nlohmann::json;

Json AddedToken(const std::string& name, size_t id) {
  return {{"id", id},        {"content", name}, {"single_word", false},
          {"lstrip", false}, {"rstrip", false}, {"normalized", false},
          {"special", true}};
}

}  // namespace

std::string NormalizeText(absl::string_view text,
                          const BasicTokenizerOptions& options) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Character next = FirstCharacter(text);
    AppendCleaned(next.point < 0 ? kReplacement : next.point, options, &result);
    text.remove_prefix(next.bytes);
  }
  if (IsAscii(result)) {
    if (options.lower_case) absl::AsciiStrToLower(&result);
    return result;
  }
  if (options.strip_accents) result = WithoutAccents(result);
  if (options.lower_case) result = LowerCase(result);
  return result;
}

absl::StatusOr<std::unique_ptr<WordPieceTokenizer>> WordPieceTokenizer::Create(
    std::vector<std::string> tokens, WordPieceOptions options) {
  std::unique_ptr<WordPieceTokenizer> result(
      new WordPieceTokenizer(std::move(options)));
  result->tokens_ = std::move(tokens);
  const WordPieceOptions& used = result->options_;
  for (size_t i = 0; i < result->tokens_.size(); ++i) {
    const std::string& token = result->tokens_[i];
    if (token.empty()) continue;
    const int32_t id = static_cast<int32_t>(i);
    if (!result->beginnings_.emplace(token, id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tokens ", result->beginnings_[token], " and ", id,
                       " are both \"", absl::CHexEscape(token), "\""));
    }
    absl::string_view rest = token;
    if (absl::ConsumePrefix(&rest, used.prefix) && !rest.empty()) {
      result->continuations_.emplace(rest, id);
    }
    result->longest_ = std::max(result->longest_, token.size());
  }
  const auto unknown = result->beginnings_.find(used.unknown);
  if (unknown == result->beginnings_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the vocabulary lacks ", used.unknown,
                     ", the token of words that it cannot represent"));
  }
  result->unknown_ = unknown->second;
  return result;
}

void WordPieceTokenizer::AppendWord(absl::string_view word,
                                    std::vector<int32_t>* ids) const {
  if (static_cast<int64_t>(word.size()) > options_.max_characters &&
      Characters(word) > options_.max_characters) {
    ids->push_back(unknown_);
    return;
  }
  const size_t before = ids->size();
  for (size_t begin = 0; begin < word.size();) {
    const auto& tokens = begin == 0 ? beginnings_ : continuations_;
    // Tokens are valid UTF-8, so that no match ends within a character.
    size_t bytes = std::min(word.size() - begin, longest_);
    auto found = tokens.end();
    for (; bytes > 0; --bytes) {
      found = tokens.find(word.substr(begin, bytes));
      if (found != tokens.end()) break;
    }
    if (bytes == 0) {
      ids->resize(before);
      ids->push_back(unknown_);
      return;
    }
    ids->push_back(found->second);
    begin += bytes;
  }
}

absl::StatusOr<std::vector<int32_t>> WordPieceTokenizer::Encode(
    absl::string_view text) const {
  TRIBUTARY_RETURN_IF_ERROR(CheckTextLength(text));
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4);
  while (!text.empty()) {
    const size_t bytes = PieceBytes(text);
    const std::string piece =
        NormalizeText(text.substr(0, bytes), options_.basic);
    ForEachWord(piece, [&](absl::string_view word) { AppendWord(word, &ids); });
    text.remove_prefix(bytes);
  }
  return ids;
}

absl::StatusOr<std::string> WordPieceTokenizer::Decode(
    absl::Span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary() || tokens_[id].empty()) {
      return NoSuchToken(id, vocabulary());
    }
    absl::string_view token = tokens_[id];
    if (!text.empty() && !absl::ConsumePrefix(&token, options_.prefix)) {
      text.push_back(' ');
    }
    text.append(token.data(), token.size());
  }
  return text;
}

absl::optional<int32_t> WordPieceTokenizer::Special(SpecialToken token) const {
  if (token == SpecialToken::kUnknown) return unknown_;
  for (const absl::string_view name : SpecialTokenNames(token)) {
    const auto found = beginnings_.find(name);
    if (found != beginnings_.end()) return found->second;
  }
  return absl::nullopt;
}

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
