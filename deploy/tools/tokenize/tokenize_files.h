// Converts text files to a file of token ids.
#ifndef TRIBUTARY_DEPLOY_TOOLS_TOKENIZE_TOKENIZE_FILES_H_
#define TRIBUTARY_DEPLOY_TOOLS_TOKENIZE_TOKENIZE_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

struct TokenizeOptions {
  // Paths of the text files. A file whose name ends in .gz is decompressed.
  std::vector<std::string> files;
  // Path of the tokenizer; see OpenTokenizer.
  std::string tokenizer;
  std::string output;  // Path of the file to write.
  // The format of the output file, as in TokensSpec.Format: `llm_c` (uint16, or
  // uint32 if the vocabulary has more than 65,536 tokens), `uint16`, `uint32`
  // or `npy` (<u2 or <u4).
  std::string format = "llm_c";
  int threads = 1;
  // True to write the end-of-text token, if the tokenizer has one, after the
  // tokens of each file.
  bool end_of_text = true;
};

struct TokenizeProgress {
  std::string file;    // The file that is being tokenized.
  int64_t bytes = 0;   // Bytes of text in all files so far.
  int64_t tokens = 0;  // Tokens so far.
};

// Returns the size of a text for display: "1 byte", "950 bytes", "12.3 kB" or
// "4.5 MB".
std::string TextSize(int64_t bytes);

// Tokenizes the text files, one after another, with several threads. The token
// ids do not depend on the number of threads. Keeps one whole file in memory.
// Calls `progress` on the calling thread each time that about 4 MiB of text per
// thread have been tokenized. Replaces the output file when all tokens are on
// the disk; after an error, the output file is unchanged. Returns the totals of
// all files. Returns the errors of OpenTokenizer and DataFile, and
// InvalidArgument if the output format cannot store the tokens.
absl::StatusOr<TokenizeProgress> TokenizeFiles(
    const TokenizeOptions& options,
    const std::function<void(const TokenizeProgress&)>& progress);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TOKENIZE_TOKENIZE_FILES_H_
