// Opens the tokenizer that a file or a folder describes.
#ifndef TRIBUTARY_COMMON_TOKENIZER_OPEN_TOKENIZER_H_
#define TRIBUTARY_COMMON_TOKENIZER_OPEN_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// Opens a tokenizer. `path` is one of
//
// - a folder of Hugging Face, with tokenizer.json; or with vocab.json and
//   merges.txt; or with vocab.txt and, possibly, tokenizer_config.json, whose
//   do_lower_case, strip_accents and tokenize_chinese_chars are used;
// - a file *.json in the format of tokenizer.json;
// - a file *.tiktoken with the ranks of byte-level BPE, which are used with the
//   pattern of GPT-2; the end-of-text token follows the last rank;
// - a file *.txt with WordPiece's vocabulary, one token in each line, beside
//   which a tokenizer_config.json may be.
//
// Returns NotFound if there is no such file, InvalidArgument if a file is
// invalid, and Unimplemented if it describes a tokenizer of another kind. The
// message begins with the path of the file.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(
    const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_OPEN_TOKENIZER_H_
