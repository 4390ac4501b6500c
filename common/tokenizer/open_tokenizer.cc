#include "common/tokenizer/open_tokenizer.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "common/tokenizer/tokenizer_files.h"

namespace tributary {
namespace {

// More than the largest published tokenizer.json, 35 MB.
constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

using Opened = absl::StatusOr<std::unique_ptr<Tokenizer>>;

// Prepends the path to an error of a parser.
absl::Status In(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(),
                      absl::StrCat(path, ": ", status.message()));
}

template <typename Result>
Opened Finished(const std::string& path, absl::StatusOr<Result> tokenizer) {
  TRIBUTARY_RETURN_IF_ERROR(In(path, tokenizer.status()));
  return *std::move(tokenizer);
}

Opened OpenJson(const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxFileBytes));
  return Finished(path, ParseTokenizerJson(text));
}

Opened OpenVocabularyAndMerges(const std::string& folder) {
  const std::string vocabulary = absl::StrCat(folder, "/vocab.json");
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string tokens,
                             ReadFile(vocabulary, kMaxFileBytes));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::string merges,
      ReadFile(absl::StrCat(folder, "/merges.txt"), kMaxFileBytes));
  absl::StatusOr<BytePairModel> model =
      ParseVocabularyAndMerges(tokens, merges);
  TRIBUTARY_RETURN_IF_ERROR(In(vocabulary, model.status()));
  return Finished(vocabulary, BytePairTokenizer::Create(*std::move(model)));
}

Opened OpenTiktoken(const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxFileBytes));
  absl::StatusOr<BytePairModel> model = ParseTiktoken(text);
  TRIBUTARY_RETURN_IF_ERROR(In(path, model.status()));
  return Finished(path, BytePairTokenizer::Create(*std::move(model)));
}

Opened OpenVocabularyText(const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string text,
                             ReadFile(path, kMaxFileBytes));
  absl::StatusOr<std::vector<std::string>> tokens = ParseVocabularyText(text);
  TRIBUTARY_RETURN_IF_ERROR(In(path, tokens.status()));
  WordPieceOptions options;
  const std::string config =
      absl::StrCat(FolderOf(path), "/tokenizer_config.json");
  if (PathExists(config)) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string json,
                               ReadFile(config, kMaxFileBytes));
    TRIBUTARY_RETURN_IF_ERROR(
        In(config, ParseTokenizerConfig(json, &options.basic)));
  }
  return Finished(
      path, WordPieceTokenizer::Create(*std::move(tokens), std::move(options)));
}

Opened OpenFolder(const std::string& folder) {
  const auto at = [&](absl::string_view name) {
    return absl::StrCat(folder, "/", name);
  };
  if (PathExists(at("tokenizer.json"))) return OpenJson(at("tokenizer.json"));
  if (PathExists(at("vocab.json"))) return OpenVocabularyAndMerges(folder);
  if (PathExists(at("vocab.txt"))) return OpenVocabularyText(at("vocab.txt"));
  return absl::NotFoundError(
      absl::StrCat(folder,
                   ": the folder has none of tokenizer.json, vocab.json and "
                   "vocab.txt; name a folder or a file of a tokenizer"));
}

}  // namespace

Opened OpenTokenizer(const std::string& path) {
  if (IsFolder(path)) return OpenFolder(path);
  if (!PathExists(path)) {
    return absl::NotFoundError(absl::StrCat(
        path,
        ": no such file or folder; expected tokenizer.json, a folder of "
        "Hugging Face, a .tiktoken file, or vocab.txt"));
  }
  if (absl::EndsWith(path, "/vocab.json") || path == "vocab.json" ||
      absl::EndsWith(path, "merges.txt")) {
    return OpenVocabularyAndMerges(FolderOf(path));
  }
  if (absl::EndsWith(path, ".json")) return OpenJson(path);
  if (absl::EndsWith(path, ".tiktoken")) return OpenTiktoken(path);
  if (absl::EndsWith(path, ".txt")) return OpenVocabularyText(path);
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": is none of *.json, *.tiktoken and *.txt; expected "
      "tokenizer.json, a folder of Hugging Face, a .tiktoken file, or "
      "vocab.txt"));
}

}  // namespace tributary
