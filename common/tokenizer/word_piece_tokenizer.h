// WordPiece with the basic tokenizer of BERT (Devlin et al., 2019).
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

// How a text becomes words.
struct BasicTokenizerOptions {
  // Removes control characters, and turns white space into blanks.
  bool clean_text = true;
  // Makes each Chinese character a word of its own.
  bool chinese_characters = true;
  // Decomposes characters (NFD) and removes the accents.
  bool strip_accents = true;
  // Converts the text to lower case.
  bool lower_case = true;
};

struct WordPieceOptions {
  BasicTokenizerOptions basic;
  // The token of a word that the vocabulary cannot represent.
  std::string unknown = "[UNK]";
  // What a token that continues a word begins with.
  std::string prefix = "##";
  // Longer words, in characters, become the unknown token.
  int64_t max_characters = 100;
};

// Divides a text into words at white space and around punctuation, and each
// word into the longest tokens of the vocabulary, from left to right. Bytes
// that are not part of valid UTF-8 count as U+FFFD. Decode joins words with
// blanks; it does not restore what the options remove. Immutable and therefore
// thread-safe.
class WordPieceTokenizer final : public Tokenizer {
 public:
  // `tokens` are the tokens in the order of their ids; an empty one is an id
  // that no token has. Returns InvalidArgument if the unknown token is not
  // among them, or two tokens are equal.
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
  // The ids of tokens that begin a word, and, without the prefix, of those that
  // continue one.
  absl::flat_hash_map<std::string, int32_t> beginnings_;
  absl::flat_hash_map<std::string, int32_t> continuations_;
  size_t longest_ = 0;  // In bytes.
  int32_t unknown_ = 0;
};

// Returns the text that WordPiece divides into words: `text` after the changes
// that the options describe.
std::string NormalizeText(absl::string_view text,
                          const BasicTokenizerOptions& options);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_WORD_PIECE_TOKENIZER_H_
