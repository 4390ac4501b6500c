// The tokenizer of BERT: WordPiece with the basic tokenizer (Devlin et al.,
// 2019).
#ifndef TRIBUTARY_COMMON_TOKENIZER_WORD_PIECE_TOKENIZER_H_
#define TRIBUTARY_COMMON_TOKENIZER_WORD_PIECE_TOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// Options for changing a text before it is divided into words.
struct BasicTokenizerOptions {
  // Removes control characters, and replaces each white space character by a
  // space.
  bool clean_text = true;
  // Treats each Chinese character as a separate word.
  bool chinese_characters = true;
  // Decomposes characters (NFD) and removes the accents.
  bool strip_accents = true;
  // Converts the text to lower case.
  bool lower_case = true;
};

struct WordPieceOptions {
  BasicTokenizerOptions basic;
  // The token that replaces a word that the vocabulary cannot represent.
  std::string unknown = "[UNK]";
  // The prefix of tokens that continue a word.
  std::string prefix = "##";
  // Maximum number of characters of a word. Longer words become the unknown
  // token.
  int64_t max_characters = 100;
};

// Divides a text into words at white space and around punctuation. Then divides
// each word into tokens, from left to right: each token is the longest one in
// the vocabulary that matches. Bytes that are not part of valid UTF-8 are
// treated as U+FFFD. Decode joins words with spaces; it does not restore what
// the options have removed. Immutable and therefore thread-safe.
class WordPieceTokenizer final : public Tokenizer {
 public:
  // `tokens` contains the tokens, indexed by id, with an empty string for each
  // id that no token has. Returns InvalidArgument if the unknown token is not
  // among them, or if two tokens are equal.
  static absl::StatusOr<std::unique_ptr<WordPieceTokenizer>> Create(
      std::vector<std::string> tokens, WordPieceOptions options);

  int64_t vocabulary() const override {
    return static_cast<int64_t>(tokens_.size());
  }
  absl::StatusOr<std::vector<int32_t>> Encode(
      absl::string_view text) const override;
  absl::StatusOr<std::string> Decode(
      absl::Span<const int32_t> ids) const override;
  absl::optional<int32_t> Special(SpecialToken token) const override;
  std::string ToJson() const override;

 private:
  explicit WordPieceTokenizer(WordPieceOptions options)
      : options_(std::move(options)) {}
  void AppendWord(absl::string_view word, std::vector<int32_t>* ids) const;

  const WordPieceOptions options_;
  std::vector<std::string> tokens_;
  // `beginnings_` contains the ids of all tokens, by their text.
  // `continuations_` contains the ids of the tokens that continue a word, by
  // their text without the prefix.
  absl::flat_hash_map<std::string, int32_t> beginnings_;
  absl::flat_hash_map<std::string, int32_t> continuations_;
  size_t longest_ = 0;  // Size of the longest token in bytes.
  int32_t unknown_ = 0;
};

// Returns `text` after the changes that `options` describes. WordPiece divides
// the result into words.
std::string NormalizeText(absl::string_view text,
                          const BasicTokenizerOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_WORD_PIECE_TOKENIZER_H_
