// Text from a trained language model.
#ifndef TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
#define TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "worker/device/factory/device_factory.h"
#include "worker/models/generate.h"

namespace tributary {

struct SampleRequest {
  // Empty: the start of a text; with byte tokens, the start of a line.
  std::string prompt;
  // Generation ends with the token that completes this number of bytes.
  // Default: no limit.
  absl::optional<int64_t> bytes;
  GenerateOptions options;  // `end` is set from the tokenizer.
};

// Generates text with the model in `folder` on the device `place`, and passes
// it to `write` in pieces, as soon as each is known; the text does not include
// the prompt. `folder` is the output directory of a run (job.textproto and
// final/model.safetensors), or a GPT-2 in the format of Hugging Face
// (config.json and model.safetensors).
//
// Tokens are the values of bytes. The generated text is then any sequence of
// bytes.
//
// Returns an error that names the file: NotFound if `folder` is neither, or the
// run has not ended; InvalidArgument if the model is not a gpt, or no tokenizer
// is known for its vocabulary; and DataLoss if the names or shapes of the
// tensors do not match the job. Also returns the errors of CreateDevice,
// GptDecoder and GenerateTokens.
absl::Status SampleTrainedModel(
    const std::string& folder, const SampleRequest& request,
    const DeviceName& place,
    const std::function<void(absl::string_view text)>& write);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
