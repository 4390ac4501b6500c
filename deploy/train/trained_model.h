// Text from a trained language model.
#ifndef TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
#define TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "common/tokenizer/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "deploy/flags/run_files.h"
#include "proto/job.pb.h"
#include "worker/device/factory/device_factory.h"
#include "worker/models/generate.h"

namespace tributary {

// Opens the tokenizer of a file or folder. Returns NotFound if there is none.
using TokenizerOpener =
    std::function<absl::StatusOr<std::unique_ptr<Tokenizer>>(
        const std::string& path)>;

struct SampleRequest {
  // Empty: the start of a text; with byte tokens, the start of a line.
  std::string prompt;
  // The tokenizer of the model. Default: the one that the job names
  // (data.text.tokenizer or data.tokens.tokenizer), or the one in the folder of
  // Hugging Face; otherwise, the tokens of a vocabulary of 256 are bytes.
  std::string tokenizer;
  TokenizerOpener open_tokenizer = &OpenTokenizer;  // Tests replace it.
  // Generation ends with the token that completes this number of bytes.
  // Default: no limit.
  absl::optional<int64_t> bytes;
  // The weights of a run to use. A folder of Hugging Face has only kLast.
  FinalWeights weights = FinalWeights::kLast;
  GenerateOptions options;  // `end` is set from the tokenizer.
};

// Generates text with the model in `folder` on the device `place`, and passes
// it to `write` in pieces, as soon as each is known; the text does not include
// the prompt. `folder` is the output directory of a run (job.textproto and
// final/model.safetensors), or a GPT-2 in the format of Hugging Face
// (config.json and model.safetensors).
//
// With a tokenizer, the text is valid UTF-8: bytes that are not become U+FFFD,
// and an end-of-text token ends the text. Without one, the text is any sequence
// of bytes.
//
// Returns an error that names the file: NotFound if `folder` is neither, or the
// run has not ended; InvalidArgument if the model is not a gpt, or no tokenizer
// is known for its vocabulary, or the tokenizer has tokens that the model does
// not have; and DataLoss if the names or shapes of the
// tensors do not match the job. Also returns the errors of CreateDevice,
// GptDecoder and GenerateTokens, and the
// errors of `open_tokenizer`.
absl::Status SampleTrainedModel(
    const std::string& folder, const SampleRequest& request,
    const DeviceName& place,
    const std::function<void(absl::string_view text)>& write);

// Returns true if the tokens of the job's model are known without being named
// by SampleRequest::tokenizer. `job` must be resolved and have a gpt.
bool KnowsTokens(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
