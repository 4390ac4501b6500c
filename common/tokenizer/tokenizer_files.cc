#include "common/tokenizer/tokenizer_files.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/byte_pair_files.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// The numbers of ranks of other published .tiktoken files, whose patterns
// differ from GPT-2's.
constexpr size_t kOtherTiktokenRanks[] = {50280, 50281, 100256, 199998};

// More than the longest published token. The time to find the merges grows with
// the square of the length.
constexpr size_t kMaxTiktokenBytes = 1000;

// Returns the lines without their ends.
std::vector<absl::string_view> Lines(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.back().empty()) lines.pop_back();
  for (absl::string_view& line : lines) absl::ConsumeSuffix(&line, "\r");
  return lines;
}

absl::Status ReadFlag(const nlohmann::json& config, const char* name,
                      bool* value) {
  const auto found = config.find(name);
  if (found == config.end() || found->is_null()) return absl::OkStatus();
  if (!found->is_boolean()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is ", found->dump(), ", expected true or false"));
  }
  *value = found->get<bool>();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BytePairModel> ParseVocabularyAndMerges(
    absl::string_view vocabulary, absl::string_view merges) {
  std::vector<std::string> names;
  const nlohmann::json json = ParseJson(vocabulary);
  TRIBUTARY_RETURN_IF_ERROR(ReadVocabulary(json, &names));
  BytePairFiles files(std::move(names));
  size_t number = 0;
  for (const absl::string_view line : Lines(merges)) {
    ++number;
    if (line.empty() || absl::StartsWith(line, "#version")) continue;
    const std::vector<absl::string_view> pair = absl::StrSplit(line, ' ');
    const absl::Status status =
        pair.size() == 2
            ? files.AddMerge(pair[0], pair[1])
            : absl::InvalidArgumentError("expected two tokens and a blank");
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, " of the merges: ", status.message()));
    }
  }
  return files.Finish();
}

absl::StatusOr<BytePairModel> ParseTiktoken(absl::string_view text) {
  BytePairModel model;
  absl::flat_hash_map<std::string, int32_t> ids;
  const std::vector<absl::string_view> lines = Lines(text);
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<absl::string_view> parts = absl::StrSplit(lines[i], ' ');
    std::string token;
    int64_t rank;
    if (parts.size() != 2 || !absl::Base64Unescape(parts[0], &token) ||
        token.empty() || !absl::SimpleAtoi(parts[1], &rank)) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", i + 1,
                       ": expected the base64 of a token, a blank and a rank"));
    }
    if (token.size() > kMaxTiktokenBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", i + 1, ": the token has ", token.size(),
                       " bytes; at most ", kMaxTiktokenBytes, " are allowed"));
    }
    if (rank != static_cast<int64_t>(i) || rank >= kMaxTokens) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", i + 1, ": rank ", rank, ", expected ", i,
                       ": ranks must be in order, without gaps"));
    }
    if (!ids.emplace(token, static_cast<int32_t>(rank)).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "line ", i + 1, ": the token is in line ", ids[token] + 1, ", too"));
    }
    model.tokens.push_back(std::move(token));
  }
  for (const size_t ranks : kOtherTiktokenRanks) {
    if (lines.size() != ranks) continue;
    return absl::UnimplementedError(absl::StrCat(
        "has ", ranks, " ranks, which belong to a pattern other than GPT-2's; ",
        "use a tokenizer.json with the pre-tokenizer ByteLevel, or GPT-2's ",
        "ranks"));
  }
  // Two parts of a word are merged if their bytes are a token, in the order of
  // the ranks.
  for (const std::string& token : model.tokens) {
    const absl::string_view whole = token;
    for (size_t at = 1; at < whole.size(); ++at) {
      const auto left = ids.find(whole.substr(0, at));
      if (left == ids.end()) continue;
      const auto right = ids.find(whole.substr(at));
      if (right == ids.end()) continue;
      model.merges.emplace_back(left->second, right->second);
    }
  }
  model.whole_words_first = true;
  model.special.insert(static_cast<int32_t>(model.tokens.size()));
  model.tokens.push_back("<|endoftext|>");
  return model;
}

absl::StatusOr<std::vector<std::string>> ParseVocabularyText(
    absl::string_view text) {
  std::vector<std::string> tokens;
  for (const absl::string_view line : Lines(text)) tokens.emplace_back(line);
  if (tokens.empty()) {
    return absl::InvalidArgumentError(
        "has no tokens, expected one in each line");
  }
  return tokens;
}

absl::Status ParseTokenizerConfig(absl::string_view text,
                                  BasicTokenizerOptions* options) {
  const nlohmann::json config = ParseJson(text);
  if (!config.is_object()) {
    return absl::InvalidArgumentError("is not a JSON object");
  }
  TRIBUTARY_RETURN_IF_ERROR(
      ReadFlag(config, "do_lower_case", &options->lower_case));
  options->strip_accents = options->lower_case;
  TRIBUTARY_RETURN_IF_ERROR(
      ReadFlag(config, "strip_accents", &options->strip_accents));
  return ReadFlag(config, "tokenize_chinese_chars",
                  &options->chinese_characters);
}

}  // namespace tributary
