// Generates text with a trained language model.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TRAINED_MODEL_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TRAINED_MODEL_H_

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

// Opens the tokenizer in a file or folder. Returns NotFound if there is none.
using TokenizerOpener =
    std::function<absl::StatusOr<std::unique_ptr<Tokenizer>>(
        const std::string& path)>;

struct SampleRequest {
  // The text that the model continues. If it is empty, generation begins after
  // an end-of-text token or, if the tokenizer has none, after a line end.
  std::string prompt;
  // Path of the model's tokenizer. If it is empty, uses the tokenizer that the
  // job names (data.text.tokenizer or data.tokens.tokenizer), or the one in the
  // folder of a Hugging Face model. If there is none and the vocabulary has 256
  // tokens, the tokens are bytes.
  std::string tokenizer;
  TokenizerOpener open_tokenizer = &OpenTokenizer;  // Tests replace it.
  // Generation ends as soon as the text has at least this number of bytes. No
  // limit by default.
  absl::optional<int64_t> bytes;
  // The weights of the run to use: those after the last step (kLast) or their
  // moving average (kAverage). Must be kLast for a folder in the format of
  // Hugging Face.
  FinalWeights weights = FinalWeights::kLast;
  GenerateOptions options;  // `end` is set from the tokenizer.
};

// Generates text with the model in `folder` on the device `place`. Passes the
// text, without the prompt, to `write` in pieces, each as soon as it is
// generated. `folder` is the output directory of a run (job.textproto and
// final/model.safetensors), or a GPT-2 in the format of Hugging Face
// (config.json and model.safetensors).
//
// With a tokenizer, the text is valid UTF-8: invalid bytes are replaced by
// U+FFFD, and an end-of-text token ends the text. Without a tokenizer, the text
// may contain any bytes.
//
// Returns an error that names the file: NotFound if `folder` is neither a run
// nor a GPT-2, or the run has not ended; InvalidArgument if the model is not a
// gpt, if no tokenizer is known for its vocabulary, if the tokenizer has tokens
// that the model does not have, or if kAverage is requested of a folder in the
// format of Hugging Face; and DataLoss if the names or shapes of the tensors do
// not match the job. Also returns the errors of CreateDevice, GptDecoder,
// GenerateTokens and `open_tokenizer`.
absl::Status SampleTrainedModel(
    const std::string& folder, const SampleRequest& request,
    const DeviceName& place,
    const std::function<void(absl::string_view text)>& write);

// Returns true if SampleTrainedModel can convert the tokens of the job's model
// to text without SampleRequest::tokenizer. `job` must be a result of
// ResolveJob and have a gpt.
bool KnowsTokens(const JobSpec& job);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_TRAINED_MODEL_H_
