// Converts text files to a file of token ids.
#ifndef TRIBUTARY_DEPLOY_TOKENIZE_TOKENIZE_FILES_H_
#define TRIBUTARY_DEPLOY_TOKENIZE_TOKENIZE_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tributary {

struct TokenizeOptions {
  // Text files, or files *.gz, which are decompressed.
  std::vector<std::string> files;
  // The tokenizer, as for OpenTokenizer.
  std::string tokenizer;
  std::string output;
  // The format, as in TokensSpec.Format: `llm_c` (uint16, or uint32 if the
  // vocabulary has more than 65,536 tokens), `uint16`, `uint32` or `npy` (<u2
  // or <u4).
  std::string format = "llm_c";
  int threads = 1;
  // Whether the end-of-text token follows each file.
  bool end_of_text = true;
};

struct TokenizeProgress {
  std::string file;
  int64_t bytes = 0;  // Of text, over all files.
  int64_t tokens = 0;
};

// Tokenizes the files, one after the other, with several threads; the ids do
// not depend on the number of threads. Holds one file in memory. Calls
// `progress` on the calling thread about every 4 MiB of text for each thread.
// Replaces the output when all tokens are on the disk; on an error, the output
// is unchanged. Returns the totals. Returns the errors of OpenTokenizer and
// DataFile, and InvalidArgument if the format cannot store the tokens.
absl::StatusOr<TokenizeProgress> TokenizeFiles(
    const TokenizeOptions& options,
    const std::function<void(const TokenizeProgress&)>& progress);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOKENIZE_TOKENIZE_FILES_H_
