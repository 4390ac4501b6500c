// Reads text files as tokens.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_TEXT_TOKENS_H_
#define TRIBUTARY_WORKER_DATA_TEXT_TEXT_TOKENS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/job.pb.h"
#include "worker/data/text/token_data.h"

namespace tributary {

// Reads and concatenates the files that `spec` names. Without a tokenizer, each
// byte is a token. The first floor((1 - validation_fraction) * T) of T tokens
// are for training. Returns NotFound if a file does not exist, and
// InvalidArgument if a field of `spec` or a file is invalid.
absl::StatusOr<TokenData> OpenTextTokens(const TextSpec& spec);

// Opens the tokenizer that the job's field `field` names. The errors are those
// of OpenTokenizer, and name the field.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizerOf(
    const std::string& field, const std::string& path);

// Returns InvalidArgument, naming the field of the model's vocabulary, if this
// vocabulary has fewer than `tokens` tokens. `tokens` is the size of the
// vocabulary of the tokenizer that the job's field `field` names.
absl::Status CheckVocabulary(int64_t tokens, const std::string& field,
                             const TextModel& model);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_TEXT_TOKENS_H_
