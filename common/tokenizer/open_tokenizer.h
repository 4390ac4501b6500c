// Creates a tokenizer from a file or a folder.
#ifndef TRIBUTARY_COMMON_TOKENIZER_OPEN_TOKENIZER_H_
#define TRIBUTARY_COMMON_TOKENIZER_OPEN_TOKENIZER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// Creates the tokenizer that `path` describes. `path` is one of
//
// - a folder in the format of Hugging Face, with tokenizer.json; or with
//   vocab.json and merges.txt; or with vocab.txt and, optionally,
//   tokenizer_config.json, from which do_lower_case, strip_accents and
//   tokenize_chinese_chars are used;
// - a file vocab.json or merges.txt, with the other one in the same folder;
// - any other file *.json, which has the format of tokenizer.json;
// - a file *.tiktoken with the tokens and ranks of byte-level BPE, which are
//   used with the pattern of GPT-2; the id after the last rank is the
//   end-of-text token;
// - a file *.txt with the vocabulary of WordPiece, one token in each line, and
//   optionally with a tokenizer_config.json in the same folder.
//
// Returns NotFound if there is no such file, InvalidArgument if a file is
// invalid or has a different extension, and Unimplemented if it describes an
// unsupported kind of tokenizer. The message begins with the path of the file.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(
    const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TOKENIZER_OPEN_TOKENIZER_H_
