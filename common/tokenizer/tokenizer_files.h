// Parsers of the files that describe tokenizers. They have no side effects and
// accept any bytes: an invalid file is an InvalidArgument error, and one that
// describes another kind of tokenizer is an Unimplemented error.
#ifndef TRIBUTARY_COMMON_TOKENIZER_TOKENIZER_FILES_H_
#define TRIBUTARY_COMMON_TOKENIZER_TOKENIZER_FILES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tokenizer/byte_pair_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/word_piece_tokenizer.h"

namespace tributary {

// The most tokens that a vocabulary may have.
inline constexpr int64_t kMaxTokens = int64_t{1} << 24;

// Creates the tokenizer of a tokenizer.json of Hugging Face: the model BPE with
// the pre-tokenizer ByteLevel, or WordPiece with the normalizer BertNormalizer
// and the pre-tokenizer BertPreTokenizer. The post-processor and the decoder
// are not used.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizerJson(
    absl::string_view text);

// Parses vocab.json (a JSON object from token to id) and merges.txt (a pair of
// tokens in each line, and possibly a first line that begins with #version).
absl::StatusOr<BytePairModel> ParseVocabularyAndMerges(
    absl::string_view vocabulary, absl::string_view merges);

// Parses a .tiktoken file: in each line the base64 of a token, a blank, and the
// token's rank, which is also its id. Appends the end-of-text token.
absl::StatusOr<BytePairModel> ParseTiktoken(absl::string_view text);

// Parses vocab.txt: a token in each line, in the order of the ids.
absl::StatusOr<std::vector<std::string>> ParseVocabularyText(
    absl::string_view text);

// Sets the options that tokenizer_config.json describes.
absl::Status ParseTokenizerConfig(absl::string_view text,
                                  BasicTokenizerOptions* options);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_TOKENIZER_FILES_H_
