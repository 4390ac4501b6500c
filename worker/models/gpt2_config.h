// Reads the config.json of a GPT-2 model in the format of Hugging Face.
#ifndef TRIBUTARY_WORKER_MODELS_GPT2_CONFIG_H_
#define TRIBUTARY_WORKER_MODELS_GPT2_CONFIG_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tributary {

// Returns the model that `text`, the contents of a config.json, describes:
// layers, heads, width, context, vocabulary and tied_head. Absent members have
// the default values of GPT2Config in Hugging Face's transformers. Returns
// InvalidArgument, beginning with `path` and naming the member, if the text is
// not a JSON object, a member has a wrong type or range, or the model differs
// from GPT-2 in a way that model.gpt does not support.
absl::StatusOr<GptSpec> ParseGpt2Config(absl::string_view text,
                                        const std::string& path);

// Reads the config.json in `folder`. Returns NotFound if there is none, the
// system's error if it cannot be read, and the errors of ParseGpt2Config.
absl::StatusOr<GptSpec> ReadGpt2Config(const std::string& folder);

// Checks the sizes of a GPT model, in which defaults have been set (see
// ResolveJob), against the config.json that belongs to
// model.initial_weights.path. If this path is a folder, config.json is in that
// folder; otherwise it is in the folder of that file. Returns InvalidArgument,
// naming each field that differs and both values. Returns OK if there is no
// config.json, or if `model` is not a GPT model with initial weights.
absl::Status CheckGpt2Config(const ModelSpec& model);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_GPT2_CONFIG_H_
