// Reads files of token ids.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_TOKEN_FILES_H_
#define TRIBUTARY_WORKER_DATA_TEXT_TOKEN_FILES_H_

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/text/token_data.h"

namespace tributary {

// Concatenates the tokens of all files that `spec` names. The held-out part
// consists of the files of validation_path. Without such files, the held-out
// part is the end of the training files, as in OpenTextTokens. Does not open
// the tokenizer.
//
// The files stay open, and tokens are read from the disk when they are needed.
// The files must not change while the job runs: TokenSource::Copy returns an
// error if one has become shorter, or has a token that is not below the model's
// vocabulary. This function also checks every token. Returns NotFound if a file
// does not exist, and InvalidArgument if a field or a file is invalid, or a
// token is not below the model's vocabulary.
absl::StatusOr<TokenData> OpenTokenFiles(const TokensSpec& spec,
                                         const TextModel& model);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_TOKEN_FILES_H_
