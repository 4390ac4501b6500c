#include "worker/data/text/text_tokens.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "common/tokenizer/gpt2_pattern.h"
#include "common/tokenizer/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

constexpr int64_t kByteValues = 256;
// Texts are tokenized in pieces of about this size, which bounds the memory.
constexpr size_t kPieceBytes = 1 << 22;
// How much of a file is inspected for zeros.
constexpr size_t kInspectedBytes = 1 << 20;

class ByteTokens final : public TokenSource {
 public:
  explicit ByteTokens(std::string text) : text_(std::move(text)) {}
  int64_t size() const override { return static_cast<int64_t>(text_.size()); }
  absl::Status Copy(int64_t begin, int64_t count, int32_t* to) const override {
    const auto from = text_.begin() + begin;
    std::transform(from, from + count, to, [](char byte) {
      return static_cast<int32_t>(static_cast<unsigned char>(byte));
    });
    return absl::OkStatus();
  }

 private:
  const std::string text_;
};

class IdTokens final : public TokenSource {
 public:
  explicit IdTokens(std::vector<int32_t> ids) : ids_(std::move(ids)) {}
  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  absl::Status Copy(int64_t begin, int64_t count, int32_t* to) const override {
    std::copy_n(ids_.begin() + begin, count, to);
    return absl::OkStatus();
  }

 private:
  const std::vector<int32_t> ids_;
};

absl::Status CheckSpec(const TextSpec& spec) {
  if (spec.path().empty()) {
    return absl::InvalidArgumentError(
        "data.text.path: must name at least one file");
  }
  if (!(spec.validation_fraction() > 0 && spec.validation_fraction() < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data.text.validation_fraction: ", spec.validation_fraction(),
        "; must be above 0 and below 1"));
  }
  return absl::OkStatus();
}

// The magic numbers of llm.c's token files, as stored.
constexpr absl::string_view kLlmCMagics[] = {
    absl::string_view("\x88\xd4\x34\x01", 4),
    absl::string_view("\xa1\xd9\x34\x01", 4)};

// Returns what the bytes are if they are not text, or an empty string.
std::string BinaryKind(const std::string& path, absl::string_view bytes) {
  for (const absl::string_view magic : kLlmCMagics) {
    if (absl::StartsWith(bytes, magic)) return "a token file of llm.c";
  }
  if (absl::StartsWith(bytes, kNpyMagic)) return "a NumPy array (.npy)";
  if (absl::StartsWith(bytes, kGzipMagic)) {
    return absl::StrCat("compressed by gzip; rename it to ", path, ".gz");
  }
  if (absl::StartsWith(bytes, kZipMagic)) return "a ZIP archive";
  // A text may contain a stray zero. Of numbers, many bytes are zero.
  const absl::string_view start = bytes.substr(0, kInspectedBytes);
  const size_t zeros =
      static_cast<size_t>(std::count(start.begin(), start.end(), '\0'));
  if (zeros < 2 || zeros * 64 < start.size()) return "";
  return absl::StrCat("binary: ", zeros, " of the first ", start.size(),
                      " bytes are 0");
}

// Training on the bytes of numbers, or of compressed data, is a mistake.
absl::Status CheckIsText(const std::string& path, absl::string_view bytes) {
  const std::string kind = BinaryKind(path, bytes);
  if (kind.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is ", kind,
                   "; data.text reads text. For a file of token ids, use "
                   "data.tokens instead"));
}

// Tokenizes the files. The end-of-text token follows each of them.
absl::StatusOr<std::vector<int32_t>> Tokenize(
    const TextSpec& spec, const Tokenizer& tokenizer,
    absl::Span<const absl::string_view> files) {
  const absl::optional<int32_t> end =
      tokenizer.Special(SpecialToken::kEndOfText);
  std::vector<int32_t> ids;
  for (size_t i = 0; i < files.size(); ++i) {
    for (absl::string_view rest = files[i]; !rest.empty();) {
      const size_t bytes = SafeSplit(rest, kPieceBytes);
      absl::StatusOr<std::vector<int32_t>> piece =
          tokenizer.Encode(rest.substr(0, bytes));
      if (!piece.ok()) {
        return absl::InvalidArgumentError(absl::StrCat(
            spec.path(static_cast<int>(i)), ": ", piece.status().message()));
      }
      ids.insert(ids.end(), piece->begin(), piece->end());
      rest.remove_prefix(bytes);
    }
    if (end.has_value()) ids.push_back(*end);
  }
  return ids;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizerOf(
    const std::string& field, const std::string& path) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = OpenTokenizer(path);
  if (tokenizer.ok()) return tokenizer;
  return absl::Status(tokenizer.status().code(),
                      absl::StrCat(field, ": ", tokenizer.status().message()));
}

absl::Status CheckVocabulary(int64_t tokens, const std::string& field,
                             const TextModel& model) {
  if (tokens <= model.vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      model.field, ".vocabulary: ", model.vocabulary, ", but ", field, " has ",
      tokens, " tokens; set ", model.field, ".vocabulary to ", tokens));
}

absl::StatusOr<TokenData> OpenTextTokens(const TextSpec& spec) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSpec(spec));
  std::string text;
  std::vector<size_t> ends;
  for (const std::string& path : spec.path()) {
    const size_t begin = text.size();
    TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &text));
    TRIBUTARY_RETURN_IF_ERROR(
        CheckIsText(path, absl::string_view(text).substr(begin)));
    ends.push_back(text.size());
  }
  std::vector<absl::string_view> files;
  size_t begin = 0;
  for (const size_t end : ends) {
    files.push_back(absl::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  TokenData data;
  data.fingerprint = DataFingerprint(files);
  data.vocabulary = kByteValues;
  data.tokenizer_field = "data.text.tokenizer";
  if (spec.has_tokenizer()) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        data.tokenizer,
        OpenTokenizerOf(data.tokenizer_field, spec.tokenizer()));
    TRIBUTARY_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                               Tokenize(spec, *data.tokenizer, files));
    data.tokens = std::make_unique<IdTokens>(std::move(ids));
    data.vocabulary = data.tokenizer->vocabulary();
    data.unit = " tokens";
  } else {
    data.tokens = std::make_unique<ByteTokens>(std::move(text));
  }
  const int64_t count = data.tokens->size();
  data.train_tokens = static_cast<int64_t>(std::floor(
      static_cast<double>(count) * (1 - spec.validation_fraction())));
  data.too_short = absl::StrCat(
      absl::StrJoin(spec.path(), " + "), ": ",
      spec.has_tokenizer() ? Counted(count, "token is", "tokens are")
                           : Counted(count, "byte is", "bytes are"),
      " too short: with data.text.validation_fraction ",
      spec.validation_fraction(), " ");
  return data;
}

}  // namespace tributary
