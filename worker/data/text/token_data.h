// Tokens of files, and the sizes of the model that reads them.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_TOKEN_DATA_H_
#define TRIBUTARY_WORKER_DATA_TEXT_TOKEN_DATA_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/tokenizer/tokenizer.h"

namespace tributary {

// A sequence of token ids. Immutable and thread-safe.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Returns the number of tokens.
  virtual int64_t size() const = 0;
  // Writes the tokens [begin, begin + count) to `to`. Returns an error, which
  // names the file, if they cannot be read.
  virtual absl::Status Copy(int64_t begin, int64_t count,
                            int32_t* to) const = 0;
};

// The tokens of a job's files. The first `train_tokens` of them are for
// training, and the others are held out for evaluation.
struct TokenData {
  std::unique_ptr<TokenSource> tokens;
  int64_t train_tokens = 0;
  // Every token is below this number.
  int64_t vocabulary = 0;
  uint64_t fingerprint = 0;
  // The tokenizer that has produced the tokens. Null if the tokens are bytes,
  // or if the job names no tokenizer.
  std::unique_ptr<Tokenizer> tokenizer;
  // Used in error messages. `tokenizer_field` is the job's field that names the
  // tokenizer. `too_short` is the beginning of the message that there are too
  // few tokens. `unit` follows the number of tokens in this message: " tokens",
  // or nothing if tokens are bytes.
  std::string tokenizer_field;
  std::string too_short;
  std::string unit;
};

// The properties of a language model that its data set depends on.
struct TextModel {
  std::string field;  // The field with the model, such as `model.gpt`.
  int64_t context = 0;
  int64_t vocabulary = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_TOKEN_DATA_H_
