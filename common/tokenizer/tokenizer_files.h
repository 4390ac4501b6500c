// Parsers of the files that describe tokenizers. They have no side effects and
// accept any input: they return InvalidArgument for an invalid file, and
// Unimplemented for a file that describes an unsupported kind of tokenizer.
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

// Maximum number of tokens of a vocabulary.
inline constexpr int64_t kMaxTokens = int64_t{1} << 24;

// Creates a tokenizer from `text`, the contents of a tokenizer.json of Hugging
// Face. Supports the model BPE with the pre-tokenizer ByteLevel, and the model
// WordPiece with the normalizer BertNormalizer and the pre-tokenizer
// BertPreTokenizer. Ignores the post-processor and the decoder.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizerJson(
    absl::string_view text);

// Parses the contents of vocab.json (a JSON object that maps tokens to ids) and
// of merges.txt (two tokens in each line, separated by a space; lines that
// begin with #version are ignored).
absl::StatusOr<BytePairModel> ParseVocabularyAndMerges(
    absl::string_view vocabulary, absl::string_view merges);

// Parses the contents of a .tiktoken file, whose lines contain the base64 of a
// token, a space, and the rank of the token, which is also its id. Adds the
// end-of-text token after the last one.
absl::StatusOr<BytePairModel> ParseTiktoken(absl::string_view text);

// Parses the contents of vocab.txt, which has one token in each line, in the
// order of the ids.
absl::StatusOr<std::vector<std::string>> ParseVocabularyText(
    absl::string_view text);

// Sets the fields of `*options` that `text`, the contents of a
// tokenizer_config.json, describes. If `text` does not contain strip_accents,
// sets that field to the value of lower_case.
absl::Status ParseTokenizerConfig(absl::string_view text,
                                  BasicTokenizerOptions* options);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_TOKENIZER_FILES_H_
